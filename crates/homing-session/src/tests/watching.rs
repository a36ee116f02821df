//! What a session that only watches looks at.

use super::super::input::*;
use super::super::output::Output;
use super::super::thinning::{Part, PAGES};
use super::super::{Session, PAGE};
use super::world::{policy, session, HEAP};
use homing_core::ids::{Micros, Node};
use homing_core::process::{Class, ProcessId, Region, ThreadId};

const PROCESS: ProcessId = ProcessId(1);
const ALL: u64 = 1 << 16;
const AT_ONCE: usize = 1024;
const SCANS: u64 = 4;

/// Hands over an input, answers that all pages are on node 0, and returns how many were asked for.
fn feed(session: &mut Session<'_>, t: Micros, input: Input) -> usize {
    let mut outputs = Vec::new();
    session.input(t, input, &mut outputs);
    let mut asked = 0;
    for output in outputs {
        if let Output::Locate { number, questions } = output {
            asked += questions.len();
            let answers = vec![Answer { node: Some(Node(0)), huge: false }; questions.len()];
            feed(session, t, Input::Located { number, answers });
        }
    }
    asked
}

#[test]
fn of_many_pages_a_bounded_number_is_followed_with_all_their_samples() {
    let mut policy = policy();
    let mut session = session("watch scans", &mut *policy);
    let region = Region {
        name: "heap#0".into(),
        start: HEAP,
        end: HEAP + ALL * PAGE,
        class: Class::Heap,
        backing: None,
    };
    let looked =
        Looked { begun: vec![PROCESS], remapped: vec![(PROCESS, vec![region])], ..Looked::default() };
    feed(&mut session, Micros(0), Input::Looked(looked));
    let kind = AccessKind::HintFault { after_scan: Some(Micros(100)) };
    let fault = |page| {
        let (thread, node, address) = (ThreadId(1), Node(1), HEAP + page * PAGE);
        Access { process: PROCESS, thread, node, address, store: false, kind }
    };
    let pages: Vec<Access> = (0..ALL).map(fault).collect();
    let mut asked = 0;
    for scan in 0..SCANS {
        let t = Micros::from_millis(3000 * scan);
        for some in pages.chunks(AT_ONCE) {
            asked += feed(&mut session, t, Input::Accesses(some.to_vec()));
            assert!(session.orders().pages().len() <= PAGES + AT_ONCE);
        }
        feed(&mut session, t, Input::IntervalEnd);
    }
    let Part::Pages { one_of } = session.part() else { panic!("{:?}", session.part()) };
    assert!(one_of >= 16 && session.orders().pages().len() as u64 >= ALL / one_of / 2, "{one_of}");
    assert!(asked < 5 * PAGES, "where pages are was asked {asked} times");
    let seen = session.orders().pages().iter().map(|(_, entry)| entry.seen[1]);
    assert!(
        seen.into_iter().all(|seen| u64::from(seen) == SCANS),
        "those that are left were seen by all scans"
    );
    let account = session.account();
    assert_eq!(account.total.remote + account.thinned, SCANS * ALL);
}
