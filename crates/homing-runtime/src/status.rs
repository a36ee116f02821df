//! What calls come to: the numbers of `enum homing_status`.

/// A status. Above 0 nothing is moved here; below 0 the call was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    OneNode = 1,
    NoSource = 2,
    Recorded = 3,
    Secure = 4,
    Forked = 5,
    Ended = 6,
    BadArgument = -1,
    NotStarted = -2,
    Started = -3,
    Failed = -4,
}

/// All of them, and what `homing_status_text` says.
const TEXTS: [(Status, &std::ffi::CStr); 11] = [
    (Status::Ok, c"done"),
    (Status::OneNode, c"the machine has one memory node: nothing can move"),
    (
        Status::NoSource,
        c"nothing tells here which thread uses which page: nothing moves (homing_reason says why)",
    ),
    (Status::Recorded, c"a recorder of Homing, or Valgrind, is at work: nothing moves"),
    (Status::Secure, c"the program has more rights than who started it: nothing moves"),
    (
        Status::Forked,
        c"a child of the process that started the library: nothing moves before it executes a program",
    ),
    (Status::Ended, c"the manager had to end (homing_reason says why): nothing moves any more"),
    (Status::BadArgument, c"an argument that makes no sense (homing_reason says which)"),
    (Status::NotStarted, c"homing_start comes first"),
    (Status::Started, c"the library has been started already"),
    (Status::Failed, c"it failed (homing_reason says why)"),
];

/// The sentence for a number.
pub fn text(number: i32) -> &'static std::ffi::CStr {
    TEXTS
        .iter()
        .find(|(status, _)| *status as i32 == number)
        .map_or(c"no status of this library", |(_, text)| text)
}

/// A status and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: Status,
    pub reason: String,
}

impl Verdict {
    /// With a reason of its own.
    pub fn new(status: Status, reason: impl Into<String>) -> Verdict {
        Verdict { status, reason: reason.into() }
    }
}

impl From<Status> for Verdict {
    /// With the sentence of the status for a reason.
    fn from(status: Status) -> Verdict {
        Verdict::new(status, text(status as i32).to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header and this file say the same.
    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("../../../include/homing/runtime.h");
        let header = header.split_once("enum homing_status {").unwrap().1.split_once("};").unwrap().0;
        for (status, text) in TEXTS {
            let name =
                format!("{status:?}").chars().fold("HOMING".to_owned(), |name, c| match c.is_uppercase() {
                    true => format!("{name}_{c}"),
                    false => format!("{name}{}", c.to_ascii_uppercase()),
                });
            let line = header.lines().find(|line| line.trim_start().starts_with(&format!("{name} = ")));
            let number = format!("= {}", status as i32);
            assert!(line.is_some_and(|line| line.contains(&number)), "{name} {number}");
            assert!(!text.is_empty());
        }
        let declared =
            header.lines().filter(|line| line.trim_start().starts_with("HOMING_") && line.contains(" = "));
        assert_eq!(declared.count(), TEXTS.len());
        assert_eq!(text(77).to_str(), Ok("no status of this library"));
    }
}
