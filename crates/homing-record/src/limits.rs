//! What Valgrind cannot carry: how its messages, and the tool's, tell it, and what to do instead. Its own words for it
//! ask to rebuild Valgrind, or to report an error; these replace them.

use std::collections::{BTreeMap, HashSet};

/// What a program needs that Valgrind has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// AVX-512 instructions.
    Avx512,
    /// More threads at the same time.
    Threads,
    /// More mappings.
    Mappings,
    /// To reserve a range of addresses.
    Reservation,
    /// This system call.
    Call(u64),
    /// Filters of its own system calls (seccomp).
    Filters,
}

/// Threads of a program at the same time (`--max-threads`).
pub const THREADS: u32 = 4096;
/// Mappings: `VG_N_SEGMENTS` of Valgrind.
const MAPPINGS: u32 = 30_000;
/// Before what the tool says (`limit` of recorders/valgrind/syscalls.c).
const TOOL: &str = "homing: limit: ";
/// `userfaultfd(2)` on x86-64.
const USERFAULTFD: u64 = 323;
/// The status with which Valgrind ends a program that it does not carry.
const ENDED: u8 = 1;
/// Statuses by SIGSYS and SIGKILL, with which filters end a program.
const FILTERED: [u8; 2] = [128 + 31, 128 + 9];

impl Limit {
    /// What a line of messages tells, with the number that comes with it.
    fn told(line: &str) -> Option<(Limit, u64)> {
        let number = |text: &str| text.split_whitespace().last()?.parse().ok();
        if let Some((_, bytes)) = line.split_once("unhandled instruction bytes:") {
            // EVEX-encoded instructions begin so.
            return bytes.trim_start().starts_with("0x62").then_some((Limit::Avx512, 0));
        }
        if let Some((_, what)) = line.split_once(TOOL) {
            return match what.split_whitespace().next()? {
                "reservation" => Some((Limit::Reservation, number(what)?)),
                "filters" => Some((Limit::Filters, 0)),
                "mappings" => Some((Limit::Mappings, 0)),
                _ => None,
            };
        }
        if let Some((_, call)) = line.split_once("WARNING: unhandled amd64-linux syscall:") {
            return Some((Limit::Call(number(call)?), 0));
        }
        line.contains("Use --max-threads=INT").then_some((Limit::Threads, 0))
    }

    /// The line for the user. `None` if a program that ended with this status did not meet it.
    fn words(self, number: u64, status: u8) -> Option<String> {
        let instead = "build it with `homing cc` and record that, which needs no Valgrind";
        Some(match self {
            Limit::Avx512 => "the program uses AVX-512 instructions, which Valgrind does not know: rebuild it without \
                              -march=native (for instance with -march=x86-64-v3), or use --recorder tsan"
                .into(),
            Limit::Threads => format!(
                "the program was ended: it has more than {THREADS} threads at the same time, the most that Valgrind \
                 carries here: {instead}, and counts what further threads refer to as lost"
            ),
            Limit::Mappings if status == ENDED => format!(
                "the program was ended: it has more than some {MAPPINGS} mappings, the most that Valgrind carries: \
                 {instead}"
            ),
            Limit::Reservation => format!(
                "the program asked for {number} bytes of addresses at once, and got an error: Valgrind has not as \
                 many: {instead}"
            ),
            Limit::Call(call) => {
                let name = if call == USERFAULTFD { " (userfaultfd)" } else { "" };
                format!(
                    "the program made system call {call}{name}, which Valgrind does not know, and got ENOSYS: \
                     {instead}"
                )
            }
            Limit::Filters if FILTERED.contains(&status) => format!(
                "the program was ended by its own filter of system calls (seccomp), which does not permit those that \
                 Valgrind makes: {instead}"
            ),
            Limit::Mappings | Limit::Filters => return None,
        })
    }
}

/// Lines of Valgrind's on what it does not know. They go on from a line that is one.
const REST: [&str; 4] = [
    "You may be able to write your own handler.",
    "Read the file README_MISSING_SYSCALL_OR_IOCTL.",
    "Nevertheless we consider this a bug.  Please report",
    "it at http://valgrind.org/support/bug_reports.html.",
];

/// Different lines that are remembered; what comes beyond them is said each time.
const REMEMBERED: usize = 1000;

/// What came of a recorder's messages.
#[derive(Debug, Default)]
pub struct Messages {
    met: BTreeMap<Limit, u64>,
    said: HashSet<String>,
    /// Lines that were there before, and those after a limit that ends the program.
    repeated: u64,
    left_out: u64,
}

impl Messages {
    /// Takes a line; true if the user is to see it.
    pub fn take(&mut self, line: &str) -> bool {
        // Stacks of all threads follow.
        if self.met.contains_key(&Limit::Threads) {
            self.left_out += 1;
            return false;
        }
        if let Some((limit, number)) = Limit::told(line) {
            let known = self.met.entry(limit).or_default();
            *known = number.max(*known);
            return limit == Limit::Avx512;
        }
        if REST.iter().any(|rest| line.ends_with(rest)) {
            return false;
        }
        if self.said.contains(line) && !line.trim().is_empty() {
            self.repeated += 1;
            return false;
        }
        if self.said.len() < REMEMBERED {
            self.said.insert(line.to_owned());
        }
        true
    }

    /// What the messages say of a program that ended with this status.
    pub fn words(&self, status: u8) -> Vec<String> {
        let mut words: Vec<String> =
            self.met.iter().filter_map(|(limit, number)| limit.words(*number, status)).collect();
        for (count, what) in [(self.repeated, "repeated"), (self.left_out, "further")] {
            if count > 0 {
                words.push(format!("{count} {what} lines of the recorder are left out"));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(lines: &[&str], status: u8) -> (Vec<bool>, Vec<String>) {
        let mut messages = Messages::default();
        (lines.iter().map(|line| messages.take(line)).collect(), messages.words(status))
    }

    #[test]
    fn avx512_is_told_from_other_unknown_instructions() {
        let line = "==1== vex amd64->IR: unhandled instruction bytes: 0x62 0xF1 0x7C 0x48";
        let (said, told) = words(&[line], 132);
        assert!(said == [true] && told[0].contains("AVX-512"));
        for other in ["==1== vex amd64->IR: unhandled instruction bytes: 0xF 0x62", "hello"] {
            assert_eq!(words(&[other], 132), (vec![true], vec![]));
        }
    }

    #[test]
    fn what_valgrind_cannot_carry_is_one_line_with_what_to_do() {
        let threads =
            ["Use --max-threads=INT to specify a larger number of threads", "and rerun valgrind", "x"];
        let (said, told) = words(&threads, 1);
        assert_eq!(said, [false; 3]);
        assert!(told[0].contains("more than 4096 threads") && told[0].contains("homing cc"), "{told:?}");
        assert_eq!(told[1], "2 further lines of the recorder are left out");
        let (said, told) = words(&["==9== homing: limit: mappings"], 1);
        assert!(said == [false] && told.len() == 1 && told[0].contains("30000 mappings"), "{told:?}");
        assert!(words(&["==9== homing: limit: mappings"], 0).1.is_empty());
        let call = [
            "--9-- WARNING: unhandled amd64-linux syscall: 323",
            "--9-- You may be able to write your own handler.",
        ];
        let (said, told) = words(&call, 3);
        assert!(
            said == [false; 2] && told[0].contains("323 (userfaultfd)") && told[0].contains("ENOSYS"),
            "{told:?}"
        );
        let (_, told) = words(&["==9== homing: limit: reservation 17592186044416"], 3);
        assert!(told[0].contains("17592186044416 bytes"), "{told:?}");
    }

    #[test]
    fn filters_are_named_where_one_of_them_may_have_ended_the_program() {
        let line = ["==9== homing: limit: filters"];
        assert!(words(&line, 159).1[0].contains("seccomp") && words(&line, 0).1.is_empty());
    }

    #[test]
    fn lines_that_come_again_are_said_once_and_counted() {
        assert_eq!(
            words(&["a", "", "a", "b", "", "a"], 0),
            (
                vec![true, true, false, true, true, false],
                vec!["2 repeated lines of the recorder are left out".to_owned()]
            )
        );
    }
}
