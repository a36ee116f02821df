use super::*;
use homing_core::ids::Node;

fn header(teed: bool) -> Header {
    let costs = Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None });
    Header { teed, ..Header::new("work-function", "test", &costs) }
}

fn sample(t: u64) -> Line {
    Line::Sample { t, page: 3, node: 1, store: false, weight: 60.0, at: 0 }
}

fn action(t: u64, reason: &str) -> Line {
    Line::Action {
        t,
        page: 3,
        action: Kind::Move { to: Node(1) },
        from: Some(0),
        reason: reason.into(),
        profile: vec![0, 2],
        place: Place::default(),
        outcome: Came::Done,
    }
}

fn log(teed: bool, lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header(teed)).unwrap();
    lines.iter().for_each(|line| writer.put(line).unwrap());
    writer.flush().unwrap();
    bytes
}

const REASON: &str = "the past would have been cheaper there, by a move";

#[test]
fn a_teed_log_gives_the_same_decisions_and_a_changed_one_does_not() {
    // The work function algorithm goes once the past would have been cheaper by a move (100): the first sightings pay
    // for getting there, the next for the move itself.
    let seen = [1, 2, 3, 4, 5].map(sample);
    let after = [action(5, REASON), Line::Gone { page: 3 }];
    let lines = [&seen[..], &after].concat();
    let journal = Journal::read(&log(true, &lines)[..]).unwrap();
    assert_eq!(journal.lines, lines);
    let checked = check(&journal).unwrap();
    assert_eq!((checked.actions, checked.same, checked.observations), (1, 1, 6), "{checked:?}");
    assert_eq!(checked.first_difference, None);
    let forwarded = [&lines[..5], &[action(5, crate::session::threads::FORWARDED)], &lines[5..]].concat();
    let checked = check(&Journal::read(&log(true, &forwarded)[..]).unwrap()).unwrap();
    assert_eq!((checked.actions, checked.first_difference), (1, None), "nobody asked the policy");
    let changed = [&seen[..], &[action(5, "another")]].concat();
    let checked = check(&Journal::read(&log(true, &changed)[..]).unwrap()).unwrap();
    assert!(checked.first_difference.unwrap().contains("another"));
    let missing = [sample(1), action(1, REASON)];
    let checked = check(&Journal::read(&log(true, &missing)[..]).unwrap()).unwrap();
    assert!(checked.first_difference.unwrap().contains("asked for nothing"));
}

#[test]
fn a_journal_holds_decisions_only() {
    let bytes = log(false, &[sample(1), action(4, REASON), Line::Interval { t: 5 }]);
    let journal = Journal::read(&bytes[..]).unwrap();
    assert_eq!(journal.lines, [action(4, REASON)]);
    assert!(check(&journal).unwrap_err().to_string().contains("--tee"));
}

#[test]
fn cut_logs_lose_their_last_line_and_bad_ones_are_refused() {
    let bytes = log(true, &[sample(1), sample(2)]);
    let journal = Journal::read(&bytes[..bytes.len() - 9]).unwrap();
    assert_eq!((journal.lines.len(), journal.cut), (1, true));
    assert!(Journal::read(&b""[..]).unwrap_err().to_string().contains("empty"));
    assert!(Journal::read(&b"{}\n"[..]).unwrap_err().to_string().contains("line 1"));
    let other =
        String::from_utf8(bytes.clone()).unwrap().replace("\"homing_journal\":1", "\"homing_journal\":9");
    assert!(Journal::read(other.as_bytes()).unwrap_err().to_string().contains("version 9"));
    let bad = String::from_utf8(bytes).unwrap().replace("\"is\":\"sample\"", "\"is\":\"simple\"");
    assert!(Journal::read(bad.as_bytes()).unwrap_err().to_string().contains("line 2"));
}
