use super::*;
use homing_core::ids::Node;
use homing_core::process::{Class, ProcessId, Region, ThreadId};
use homing_session::input::{Access, AccessKind, Answer, Landed, Looked, ThreadSeen};
use homing_session::{Session, Setup};

fn header(teed: bool) -> Header {
    let costs = Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None });
    let settings = Settings {
        nodes: 2,
        time_for_moves: Micros(100_000),
        rate_limit: 0,
        regions: Vec::new(),
        bind: Vec::new(),
        keep: Vec::new(),
        dry_run: false,
        watch: false,
        weight: 100.0,
        keep_huge_pages: false,
        spread: true,
        scans: true,
        send_back: true,
    };
    Header { teed, settings: Some(settings), ..Header::new("work-function", "test", &costs) }
}

const PROCESS: ProcessId = ProcessId(7);

fn looked() -> Input {
    let heap =
        Region { name: "heap#0".into(), start: 0x1000, end: 0x9000, class: Class::Heap, backing: None };
    let thread = ThreadSeen { process: PROCESS, thread: ThreadId(7), node: Some(Node(1)), ran: true };
    Input::Looked(Looked {
        begun: vec![PROCESS],
        remapped: vec![(PROCESS, vec![heap])],
        threads: vec![thread],
        ..Looked::default()
    })
}

fn faults(addresses: &[u64]) -> Input {
    let kind = AccessKind::HintFault { after_scan: Some(Micros(100)) };
    let fault = |&address: &u64| Access {
        process: PROCESS,
        thread: ThreadId(7),
        node: Node(1),
        address,
        store: false,
        kind,
    };
    Input::Accesses(addresses.iter().map(fault).collect())
}

/// A session in which a page moves to its only user.
fn inputs() -> Vec<Input> {
    let there = Answer { node: Some(Node(0)), huge: false };
    vec![
        Input::Tick { behind: false, scannable: true },
        looked(),
        faults(&[0x3000, 0x4008]),
        Input::Located { number: 0, answers: vec![there, there] },
        Input::IntervalEnd,
        Input::Landed { results: vec![(0, Landed::There)], moving: Micros(9), stopped: Micros(0) },
        Input::End,
    ]
}

/// Has a session do that and tees it.
fn tee(header: &Header, inputs: Vec<Input>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, header).unwrap();
    let costs = header.prices.clone().into();
    let mut policy =
        homing_core::policy::table::find(&header.policy).unwrap().make(&costs, false, &Default::default());
    let mut session = Session::new(Setup {
        settings: header.settings.clone().unwrap(),
        policy: &mut *policy,
        context: header.context.clone(),
        plan: header.plan.clone(),
        record: true,
    });
    for (at, input) in inputs.into_iter().enumerate() {
        let (t, mut outputs) = (Micros(1000 * at as u64), Vec::new());
        writer.input(t, &input).unwrap();
        session.input(t, input, &mut outputs);
        outputs.iter().for_each(|output| writer.output(output).unwrap());
    }
    writer.flush().unwrap();
    bytes
}

fn checked(text: &str) -> Checked {
    check(&Journal::read(text.as_bytes()).unwrap()).unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_teed_log_gives_the_same_outputs_and_a_changed_one_does_not() {
    let log = text(tee(&header(true), inputs()));
    assert!(log.contains(r#""is":"result""#) && log.contains(r#""outcome":"done""#), "{log}");
    let same = checked(&log);
    assert_eq!((same.observations, same.first_difference.clone()), (7, None), "{log}");
    assert!(same.actions >= 7 && same.actions == same.same, "{same:?}");
    for (was, is) in [
        (r#""node":1,"address":16392"#, r#""node":0,"address":16392"#),
        (r#""after_scan":100"#, r#""after_scan":399999"#),
        (r#"{"node":0,"huge":false}"#, r#"{"node":1,"huge":false}"#),
        (r#""reason":"the past"#, r#""reason":"another past"#),
        (r#"{"is":"output","output":"scan"}"#, r#"{"is":"output","output":"look"}"#),
        (r#""outcome":"pending""#, r#""outcome":{"refused":"the target node is full"}"#),
        (r#"[0,"there"]"#, r#"[0,{"not":16}]"#),
        (r#""weight":100.0,"keep"#, r#""weight":1.0,"keep"#),
    ] {
        assert!(log.contains(was), "{was} in {log}");
        let difference = checked(&log.replacen(was, is, 1)).first_difference;
        assert!(difference.is_some_and(|message| message.contains("after input")), "{was}");
    }
}

#[test]
fn a_missing_output_is_a_difference_unless_the_engine_was_killed() {
    let log = text(tee(&header(true), inputs()));
    let lines: Vec<&str> = log.lines().collect();
    let result = lines.iter().position(|line| line.contains(r#""is":"result""#)).unwrap();
    let without = [&lines[..result], &lines[result + 1..]].concat().join("\n");
    assert!(checked(&without).first_difference.unwrap().contains("the log has nothing"));
    let killed = checked(&lines[..result].join("\n"));
    assert_eq!((killed.first_difference, killed.actions), (None, killed.same));
}

#[test]
fn a_journal_holds_decisions_only() {
    let journal = Journal::read(&tee(&header(false), inputs())[..]).unwrap();
    let kinds: Vec<&str> = journal
        .lines
        .iter()
        .map(|line| match line {
            Line::Action(_) => "action",
            Line::Result(_) => "result",
            _ => "another",
        })
        .collect();
    assert_eq!(kinds, ["action", "action", "result"]);
    assert!(check(&journal).unwrap_err().to_string().contains("--tee"));
    assert_eq!(journal.moves().len(), 1, "the other has not landed");
}

#[test]
fn cut_logs_lose_their_last_line_and_bad_ones_are_refused() {
    let bytes = tee(&header(true), inputs());
    let whole = Journal::read(&bytes[..]).unwrap();
    let journal = Journal::read(&bytes[..bytes.len() - 9]).unwrap();
    assert_eq!((journal.lines.len() + 1, journal.cut), (whole.lines.len(), true));
    assert!(Journal::read(&b""[..]).unwrap_err().to_string().contains("empty"));
    assert!(Journal::read(&b"{}\n"[..]).unwrap_err().to_string().contains("line 1"));
    let log = text(bytes);
    let refused = |from: &str, to: &str| {
        let bad = log.replacen(from, to, 1);
        Journal::read(bad.as_bytes()).unwrap_err().to_string()
    };
    assert!(refused("\"homing_journal\":2", "\"homing_journal\":9").contains("version 9"));
    assert!(refused("\"is\":\"input\"", "\"is\":\"inptu\"").contains("line 2"));
    assert!(refused("\"scannable\":true", "\"scannable\":7").contains("line 2"));
}

/// A generator of numbers below `most`, from a seed.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(2) + 1;
    move |most| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    }
}

/// Inputs of all kinds, whether or not they are answers to anything.
fn any_inputs(seed: u64) -> Vec<Input> {
    let mut below = numbers(seed);
    let mut inputs = vec![looked()];
    for _ in 0..300 {
        let node = Some(Node(below(2) as u16));
        inputs.push(match below(9) {
            0 => Input::Tick { behind: below(2) == 0, scannable: below(2) == 0 },
            1 => Input::IntervalEnd,
            2 => {
                let thread =
                    ThreadSeen { process: PROCESS, thread: ThreadId(below(3) as i32), node, ran: true };
                Input::Looked(Looked {
                    threads: vec![thread],
                    resident_pages: below(99),
                    ..Looked::default()
                })
            }
            3 => Input::Landed {
                results: vec![(
                    below(60) as u32,
                    [Landed::There, Landed::Not(16), Landed::Later][below(3) as usize],
                )],
                moving: Micros(below(1000)),
                stopped: Micros(0),
            },
            4 | 5 => {
                let answer = Answer { node, huge: false };
                Input::Located { number: below(120) as u32, answers: vec![answer; 3] }
            }
            6 => Input::MoversIdle,
            _ => faults(&[0x1000 + below(8) * 4096, 0x1000 + below(8) * 4096]),
        });
    }
    inputs.push(Input::End);
    inputs
}

#[test]
fn whatever_was_teed_is_the_same_when_read_back_and_a_line_that_is_taken_out_is_missed() {
    let mut decisions = 0;
    for seed in 0..40 {
        let log = text(tee(&header(true), any_inputs(seed)));
        let same = checked(&log);
        assert_eq!((same.observations, &same.first_difference), (302, &None), "seed {seed}");
        assert_eq!(same.actions, same.same);
        let lines: Vec<&str> = log.lines().collect();
        let outputs: Vec<usize> =
            (0..lines.len()).filter(|&line| line > 0 && !lines[line].contains("\"input\"")).collect();
        decisions += lines.iter().filter(|line| line.contains("\"is\":\"action\"")).count();
        let out = outputs[numbers(seed + 7)(outputs.len() as u64) as usize];
        let without = [&lines[..out], &lines[out + 1..]].concat().join("\n");
        assert!(checked(&without).first_difference.is_some(), "seed {seed}: {}", lines[out]);
    }
    assert!(decisions > 100, "{decisions} decisions: too few to show anything");
}
