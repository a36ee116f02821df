//! What a file may take the place of: one of its own kind, told by its first bytes.

use super::{begins_with, FileError, Target};
use std::path::Path;

/// What a trace begins with.
const TRACE: &[u8] = b"HOMINGTR";
/// What the journal of a session begins with.
pub const JOURNAL: &[u8] = b"{\"homing_journal\":";
/// What a page begins with, in letters of either case.
const PAGE: &[u8] = b"<!doctype html";
/// What a file of Parquet begins with.
const PARQUET: &[u8] = b"PAR1";
/// Bytes of a file by which it is judged.
const HEAD: u64 = 512;

/// What a file to be written may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Traces.
    Traces,
    /// Journals of sessions.
    Journals,
    /// HTML.
    Pages,
    /// JSON that is no journal.
    Json,
    /// Tables and other texts that are none of these; Parquet. No text says more of itself.
    Texts,
    /// Anything.
    Anything,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Trace,
    Journal,
    Page,
    Json,
    Text,
    Other,
}

impl Over {
    /// Fails if `wanted` is what it must not take the place of, or leads over another user's link. That it cannot be
    /// written at all is told when it is.
    pub fn check(self, wanted: &Path) -> Result<(), FileError> {
        match Target::of(wanted) {
            Ok(target) => self.check_target(&target),
            Err(error @ FileError::AnothersLink { .. }) => Err(error),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn check_target(self, target: &Target) -> Result<(), FileError> {
        let (fits, expected) = match self {
            Over::Traces => (Kind::Trace, "a trace"),
            Over::Journals => (Kind::Journal, "a journal"),
            Over::Pages => (Kind::Page, "an HTML page"),
            Over::Json => (Kind::Json, "a JSON file"),
            Over::Texts => (Kind::Text, "a table or another text"),
            Over::Anything => return Ok(()),
        };
        match begins_with(target, HEAD).map(|head| Kind::of(&head)) {
            Some(found) if found != fits => {
                let path = target.path().to_owned();
                Err(FileError::OtherKind { path, found: found.words(), expected })
            }
            _ => Ok(()),
        }
    }
}

impl Kind {
    fn of(head: &[u8]) -> Kind {
        let is_page = || head.get(..PAGE.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(PAGE));
        match head {
            _ if head.starts_with(TRACE) => Kind::Trace,
            _ if head.starts_with(JOURNAL) => Kind::Journal,
            _ if is_page() => Kind::Page,
            _ if is_json(head) => Kind::Json,
            _ if head.starts_with(PARQUET) || !head.contains(&0) => Kind::Text,
            _ => Kind::Other,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Trace => "a trace",
            Kind::Journal => "a journal",
            Kind::Page => "an HTML page",
            Kind::Json => "a JSON file",
            Kind::Text => "a text",
            Kind::Other => "no file of such a kind",
        }
    }
}

/// Whether a file begins as an object of JSON or a list; `[name]` begins a table of TOML.
fn is_json(head: &[u8]) -> bool {
    let mut letters = head.iter().filter(|letter| !letter.is_ascii_whitespace());
    match letters.next() {
        Some(b'{') => true,
        Some(b'[') => letters.next().is_none_or(|next| b"{[]\"-0123456789".contains(next)),
        _ => false,
    }
}

/// Whether a regular file is a trace; nothing if it is empty, absent or no regular file.
pub fn is_trace(path: &Path) -> Option<bool> {
    begins_with(&Target::of(path).ok()?, HEAD).map(|head| Kind::of(&head) == Kind::Trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_takes_the_place_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("it");
        let all = [Over::Traces, Over::Journals, Over::Pages, Over::Json, Over::Texts];
        for (contents, own) in [
            (&b"HOMINGTR..."[..], Some(Over::Traces)),
            (b"{\"homing_journal\":2,", Some(Over::Journals)),
            (b"<!DOCTYPE html>\n<html>", Some(Over::Pages)),
            (b"{\n  \"name\": \"a package\"", Some(Over::Json)),
            (b"[]\n", Some(Over::Json)),
            (b"[scope.web]\n", Some(Over::Texts)),
            (b"a,b\n", Some(Over::Texts)),
            (b"some notes", Some(Over::Texts)),
            (b"PAR1\0", Some(Over::Texts)),
            (b"\x7fELF\0", None),
        ] {
            std::fs::write(&path, contents).unwrap();
            for over in all {
                let checked = over.check(&path).map_err(|error| error.to_string());
                assert_eq!(checked.is_ok(), own == Some(over), "{over:?} {contents:?}: {checked:?}");
            }
            assert!(Over::Anything.check(&path).is_ok());
        }
        std::fs::write(&path, "").unwrap();
        assert!(all.iter().all(|over| over.check(&path).is_ok()), "nothing is lost");
        assert!(all.iter().all(|over| over.check(&place.path().join("absent")).is_ok()));
    }
}
