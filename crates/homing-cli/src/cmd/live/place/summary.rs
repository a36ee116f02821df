//! What became of a plan, for people and as JSON.

use crate::tables::things;
use homing_linux::visible;
use homing_live::place::{Counted, Counts, Entry, LEAST, MOST_NAMES};
use serde_json::{json, Value};
use std::io;

/// A line for each name, and each reason why it may be less than asked for.
pub fn lines(entries: &[Entry], counts: &Counts) -> Vec<String> {
    let names = entries.iter().zip(&counts.names).map(|(entry, counted)| line(entry, counted));
    names.chain(of_program(counts)).collect()
}

/// Those that say what went wrong.
pub fn warnings(entries: &[Entry], counts: &Counts) -> Vec<String> {
    let names = entries.iter().zip(&counts.names).filter(|(_, counted)| !is_well(counted));
    names.map(|(entry, counted)| line(entry, counted)).chain(of_program(counts)).collect()
}

fn is_well(counted: &Counted) -> bool {
    counted.blocks > 0 && counted.failed == 0 && counted.untracked == 0
}

fn line(entry: &Entry, counted: &Counted) -> String {
    let name = visible::name(&entry.name);
    if counted.blocks + counted.small + counted.untracked == 0 {
        return format!(
            "{name}: nothing of this name was allocated (blocks of less than {} KiB are not looked at)",
            LEAST >> 10
        );
    }
    let mib = counted.bytes as f64 / f64::from(1 << 20);
    let mut text =
        format!("{name}: {}, {mib:.1} MiB placed ({})", things(counted.blocks, "block"), entry.placement);
    if counted.failed > 0 {
        let error = io::Error::from_raw_os_error(counted.error);
        text += &format!("; {} of mbind failed, the last: {error}", things(counted.failed, "call"));
    }
    if counted.small > 0 {
        text += &format!("; {} without a whole page left alone", things(counted.small, "block"));
    }
    if counted.untracked > 0 {
        text += &format!("; {} left alone: too many at the same time", things(counted.untracked, "block"));
    }
    text
}

/// What is so for all names.
fn of_program(counts: &Counts) -> Vec<String> {
    let mut lines = Vec::new();
    if counts.programs == 0 {
        lines.push(
            "the plan was not read: the program did not load the library, or cannot read the directory for temporary \
             files; expected a program that is linked dynamically with glibc"
                .to_owned(),
        );
    }
    if counts.with_own_allocator > 0 {
        lines.push(format!(
            "{} with an allocator linked in: its blocks are not seen, only variables and mapped files are placed",
            things(counts.with_own_allocator, "program")
        ));
    }
    if counts.confined > 0 {
        lines.push(format!(
            "nothing was placed from then on where a program was confined by seccomp or no_new_privs ({})",
            things(counts.confined, "program")
        ));
    }
    lines
}

/// All of it.
pub fn json(entries: &[Entry], counts: &Counts) -> Value {
    debug_assert!(entries.len() <= MOST_NAMES);
    let names = entries.iter().zip(&counts.names).map(|(entry, counted)| {
        let error = (counted.failed > 0).then(|| io::Error::from_raw_os_error(counted.error).to_string());
        json!({
            "name": entry.name,
            "placement": entry.placement.to_string(),
            "blocks": counted.blocks,
            "bytes": counted.bytes,
            "failed": counted.failed,
            "last_error": error,
            "without_a_whole_page": counted.small,
            "too_many": counted.untracked,
        })
    });
    json!({
        "programs": counts.programs,
        "with_own_allocator": counts.with_own_allocator,
        "confined": counts.confined,
        "names": names.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_placed_is_said_also_if_nothing_else_is() {
        let entries =
            ["a.c:1=interleave", "b=node:0", "c=blocks"].map(|entry| entry.parse::<Entry>().unwrap());
        let well = Counted { blocks: 2, bytes: 3 << 20, ..Counted::default() };
        let failed = Counted { blocks: 1, failed: 1, error: 1, small: 2, ..Counted::default() };
        let mut counts =
            Counts { programs: 1, names: vec![well, Counted::default(), failed], ..Counts::default() };
        let text = lines(&entries, &counts);
        assert_eq!(text[0], "a.c:1: 2 blocks, 3.0 MiB placed (interleave)");
        assert!(text[1].starts_with("b: nothing of this name was allocated (blocks of less than 16 KiB"));
        assert!(text[2].contains("1 call of mbind failed, the last: Operation not permitted"), "{}", text[2]);
        assert!(text[2].ends_with("; 2 blocks without a whole page left alone") && text.len() == 3);
        assert_eq!(warnings(&entries, &counts), text[1..]);
        counts = Counts { with_own_allocator: 2, confined: 1, names: vec![well; 3], ..Counts::default() };
        let text = warnings(&entries, &counts);
        for (line, part) in text.iter().zip(["was not read", "2 programs with an allocator", "(1 program)"]) {
            assert!(line.contains(part), "{line}");
        }
        assert_eq!(json(&entries, &counts)["names"][0]["bytes"], 3 << 20);
    }
}
