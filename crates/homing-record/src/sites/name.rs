//! Names of data as reports print them.

use std::path::{Path, PathBuf};

/// A name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Of an allocation: frames of its call stack, the innermost first. Others may lie between them.
    Frames(Vec<Frame>),
    /// A variable, a function, or the last part of a file's path: a word does not say which.
    Bare(String),
    /// A variable of this library.
    Variable(String, String),
    /// A mapped file, by its path.
    File(String),
}

/// A frame of a call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// By what is known of it; what is not said may be anything.
    Named {
        /// The function.
        function: Option<String>,
        /// The last part of the source file's path, and the line.
        place: Option<(String, u32)>,
        /// The file of code.
        file: Option<PathBuf>,
    },
    /// An address of a file of code, in the file's own terms.
    Address(PathBuf, u64),
}

/// A name of data that cannot be placed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A report has shortened it.
    #[error(
        "`{0}` is shortened: expected the whole name, as below \"What to do\" or in `homing why --plan FILE`"
    )]
    Shortened(String),
    /// It is of an interpreter.
    #[error(
        "`{0}` is a line of Python: expected a line of compiled code, whose call stack the library sees"
    )]
    Python(String),
    /// It names no data of the program's own.
    #[error(
        "`{0}` is no data structure: expected an allocation's line or function, a variable, or a mapped file"
    )]
    NoData(String),
    /// It names several variables.
    #[error("`{0}` are small variables on one page: expected a variable that has pages of its own")]
    Small(String),
}

/// What stands between the frames of a call site.
const CALLED_BY: &str = " < ";

impl Name {
    /// Takes a name apart.
    ///
    /// # Errors
    /// If no data can be placed by it.
    pub fn parse(text: &str) -> Result<Name, NameError> {
        let text = text.trim();
        if text.contains('\u{2026}') {
            return Err(NameError::Shortened(text.to_owned()));
        }
        if is_region(text) {
            return Err(NameError::NoData(text.to_owned()));
        }
        let parts: Vec<&str> = text.split(CALLED_BY).collect();
        if parts.iter().any(|part| is_python(part)) {
            return Err(NameError::Python(text.to_owned()));
        }
        let frames: Vec<Option<Frame>> = parts.iter().map(|part| Frame::parse(part)).collect();
        if parts.len() > 1 {
            let whole =
                |(part, frame): (&&str, Option<Frame>)| frame.unwrap_or_else(|| Frame::function(part));
            return Ok(Name::Frames(parts.iter().zip(frames).map(whole).collect()));
        }
        if let Some(Some(frame)) = frames.into_iter().next() {
            return Ok(Name::Frames(vec![frame]));
        }
        if text.starts_with('/') {
            return Ok(Name::File(text.to_owned()));
        }
        let variable = text.strip_suffix(')').and_then(|text| text.split_once(" ("));
        let of_library = variable.filter(|(_, library)| library.contains(".so"));
        let words = of_library.map_or(text, |(variable, _)| variable);
        if is_several(words) {
            return Err(NameError::Small(text.to_owned()));
        }
        Ok(match of_library {
            Some((variable, library)) => Name::Variable(variable.to_owned(), library.to_owned()),
            None => Name::Bare(text.to_owned()),
        })
    }
}

/// `a, b` and `a, b, c and 3 more`; functions have commas within parentheses and angle brackets.
fn is_several(text: &str) -> bool {
    let listed = text.contains(", ") && !text.contains(['(', '<']);
    listed || text.strip_suffix(" more").is_some_and(|text| text.contains(" and "))
}

/// Areas that are what remains, a stack, or a mapping without a file.
fn is_region(text: &str) -> bool {
    let numbered = |name: &str| {
        let number = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('#'));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    text.is_empty()
        || ["other", "[heap]", "[stack]", "(no name)"].contains(&text)
        || text.starts_with("stack of thread ")
        || ["heap", "stack", "anonymous"].iter().any(|name| numbered(name))
}

/// `train.py:12 in load`.
fn is_python(text: &str) -> bool {
    text.rsplit_once(" in ").is_some_and(|(place, _)| !place.contains(" (") && line(place).is_some())
}

/// `heat.c:18`.
fn line(text: &str) -> Option<(String, u32)> {
    let (file, number) = text.rsplit_once(':')?;
    let file = file.rsplit('/').next().filter(|file| !file.is_empty() && !file.ends_with(':'))?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((file.to_owned(), number.parse().ok().filter(|_| is_number)?))
}

impl Frame {
    /// That of a function.
    pub fn function(name: &str) -> Frame {
        Frame::Named { function: Some(name.to_owned()), place: None, file: None }
    }

    /// A frame that says more than a function.
    fn parse(text: &str) -> Option<Frame> {
        if let Some((file, address)) = text.rsplit_once("+0x").filter(|(file, _)| file.starts_with('/')) {
            return Some(Frame::Address(PathBuf::from(file), u64::from_str_radix(address, 16).ok()?));
        }
        if let Some((function, inner)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
            let function = Some(function.to_owned());
            if let Some(file) = inner.strip_prefix("in ") {
                return Some(Frame::Named { function, place: None, file: Some(Path::new(file).to_owned()) });
            }
            return line(inner).map(|place| Frame::Named { function, place: Some(place), file: None });
        }
        let place = line(text).filter(|_| !text.contains(' '))?;
        Some(Frame::Named { function: None, place: Some(place), file: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(function: Option<&str>, place: Option<(&str, u32)>, file: Option<&str>) -> Frame {
        let place = place.map(|(file, line)| (file.to_owned(), line));
        Frame::Named { function: function.map(str::to_owned), place, file: file.map(PathBuf::from) }
    }

    #[test]
    fn names_are_taken_apart_as_reports_print_them() {
        let grid = named(Some("grid"), Some(("grid.c", 5)), None);
        for (text, name) in [
            ("heat.c:18", Name::Frames(vec![named(None, Some(("heat.c", 18)), None)])),
            ("src/heat.c:18", Name::Frames(vec![named(None, Some(("heat.c", 18)), None)])),
            ("grid (grid.c:5)", Name::Frames(vec![grid.clone()])),
            (
                "grid (grid.c:5) < main (main.c:15)",
                Name::Frames(vec![grid.clone(), named(Some("main"), Some(("main.c", 15)), None)]),
            ),
            ("grid (grid.c:5) < main", Name::Frames(vec![grid, Frame::function("main")])),
            (
                "void f<int>(char const*, int) (x.cpp:7)",
                Name::Frames(vec![named(Some("void f<int>(char const*, int)"), Some(("x.cpp", 7)), None)]),
            ),
            ("f (in /usr/bin/app)", Name::Frames(vec![named(Some("f"), None, Some("/usr/bin/app"))])),
            ("/usr/bin/app+0x1f", Name::Frames(vec![Frame::Address("/usr/bin/app".into(), 0x1f)])),
            ("new_grid", Name::Bare("new_grid".into())),
            ("app::table", Name::Bare("app::table".into())),
            ("f(int, char)", Name::Bare("f(int, char)".into())),
            ("main_arena (libc.so.6)", Name::Variable("main_arena".into(), "libc.so.6".into())),
            ("/data/graph.bin", Name::File("/data/graph.bin".into())),
        ] {
            assert_eq!(Name::parse(text), Ok(name), "{text}");
        }
    }

    #[test]
    fn names_that_no_data_can_be_placed_by_are_refused() {
        for (text, says) in [
            ("solver::assemble_\u{2026}/solver.cpp:123)", "shortened"),
            ("train.py:12 in Model.load", "Python"),
            ("array.c:3 in x < train.py:12 in Model.load", "Python"),
            ("stack of thread 3", "no data structure"),
            ("heap#0", "no data structure"),
            ("anonymous#12", "no data structure"),
            ("other", "no data structure"),
            ("", "no data structure"),
            ("a, b", "small variables"),
            ("counts, table and 3 more (libx.so)", "small variables"),
        ] {
            let error = Name::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
