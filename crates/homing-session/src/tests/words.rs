//! The words of the scenarios: names of pages and areas, and what the session asks for.

use super::super::output::*;
use super::super::plan::Place;
use super::super::{HUGE, PAGE};
use super::world::{shared_of, CACHE, DATA, HEAP, SHARED};
use homing_core::process::{HotArea, Own, ProcessId};

/// An area such as `a=h0+8`, eight pages from the first of the heap on, `a=h0+8*stays` or `a=h0+8*2`, with a threshold.
pub(super) fn hot_area(words: &str) -> HotArea {
    let (area, own) = words.split_once('*').unwrap_or((words, ""));
    let (name, place_of) = area.split_once('=').unwrap();
    let (page, pages) = place_of.split_once('+').unwrap();
    let own = match own {
        "" => Own::default(),
        "stays" => Own { stays: true, ..Own::default() },
        threshold => Own { threshold: threshold.parse().unwrap(), ..Own::default() },
    };
    HotArea { start: place(page).1, bytes: number(pages) * PAGE, name: name.into(), own }
}

pub(super) fn number(word: &str) -> u64 {
    word.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_else(|_| panic!("{word}"))
}

/// The process and address of a page such as `h3` or `2:h3`.
pub(super) fn place(word: &str) -> (i32, u64) {
    let (process, page) = word.split_once(':').unwrap_or(("1", word));
    let process: i32 = process.parse().unwrap();
    let base = match &page[..1] {
        "h" => HEAP + number(page) * PAGE,
        "H" => HEAP + number(page) * HUGE,
        "d" => DATA + number(page) * PAGE,
        "c" => CACHE + number(page) * PAGE,
        "s" => shared_of(process) + number(page) * PAGE,
        "x" => number(page) * PAGE,
        _ => panic!("{word}"),
    };
    (process, base)
}

fn name(process: ProcessId, address: u64) -> String {
    let page = match address {
        SHARED.. => format!("s{}", (address - shared_of(process.0)) / PAGE),
        CACHE.. => format!("c{}", (address - CACHE) / PAGE),
        DATA.. => format!("d{}", (address - DATA) / PAGE),
        HEAP.. => format!("h{}", (address - HEAP) / PAGE),
        _ => format!("x{}", address / PAGE),
    };
    if process == ProcessId(1) {
        page
    } else {
        format!("{process}:{page}")
    }
}

/// The name of a page by its place in a region.
fn placed(place: &Place) -> String {
    let letter = match place.region.as_str() {
        "heap#0" => 'h',
        "lib.so#0" => 'd',
        "lib.so#1" => 'c',
        "segment#0" => 's',
        _ => return "?".into(),
    };
    let (page, huge) = (place.offset / PAGE, if place.bytes == HUGE { "*" } else { "" });
    let process = if place.process == 0 { String::new() } else { format!("{}:", place.process + 1) };
    format!("{process}{letter}{page}{huge}")
}

fn outcome(outcome: &RecordedOutcome) -> String {
    match outcome {
        RecordedOutcome::Done => "done".into(),
        RecordedOutcome::Pending => "pending".into(),
        RecordedOutcome::Already => "already".into(),
        RecordedOutcome::Refused(why) => format!("refused: {why}"),
        RecordedOutcome::Failed(errno) => format!("failed {errno}"),
    }
}

/// An output in few words.
pub(super) fn describe(output: &Output) -> String {
    let to = |kind: &homing_core::action::Kind| kind.describe().1.map_or("-".into(), |node| node.to_string());
    match output {
        Output::Look => "look".into(),
        Output::Scan => "scan".into(),
        Output::Locate { questions, .. } => {
            let question = |q: &Question| name(q.process, q.address) + if q.maybe_huge { "?" } else { "" };
            format!("ask {}", questions.iter().map(question).collect::<Vec<_>>().join(" "))
        }
        Output::Move { orders, .. } => {
            let order = |order: &Order| {
                let all = if order.shared { " for all" } else { "" };
                format!("{}>{}{all}", name(order.process, order.address), order.to)
            };
            match orders.len() {
                0 => "send nothing, in more time".into(),
                1..=8 => format!("send {}", orders.iter().map(order).collect::<Vec<_>>().join(" ")),
                many => format!("send {many}"),
            }
        }
        Output::Split(pages) => {
            let page = |page: &HugePage| name(page.process, page.address);
            format!("split {}", pages.iter().map(page).collect::<Vec<_>>().join(" "))
        }
        Output::Bind { thread, cpu } => format!("bind {} to {cpu}", thread.0),
        Output::Keep { thread, node, .. } => format!("keep {} on {}", thread.0, node.0),
        Output::SendBack { thread, node, .. } => format!("send {} back to {}", thread.0, node.0),
        Output::LetGo { thread } => format!("let {} go", thread.0),
        Output::Decided(decided) => {
            let from = decided.from.map_or("?".into(), |node| node.to_string());
            let forwarded =
                if decided.reason == super::super::threads::FORWARDED { " forwarded" } else { "" };
            let (page, to) = (placed(&decided.place), to(&decided.action));
            format!("{page} {from}>{to}{forwarded} {}", outcome(&decided.outcome))
        }
        Output::Settled(settled) => format!("page {} {}", settled.page, outcome(&settled.outcome)),
        Output::WasSplit(split) => format!("{} was split", placed(&split.place)),
    }
}
