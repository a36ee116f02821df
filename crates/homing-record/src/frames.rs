//! Names as people read them: C++ and Rust names demangled, and the frames of call sites looked up in the debug
//! information of the program and its libraries, or in what a compiler at run time says of its code.

use crate::code::Code;
use homing_trace::{NameKind, Reword};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What stands between the frames of a call site (`HOMING_CALLED_BY` of the wire).
const CALLED_BY: &str = " < ";
/// Where compilers at run time say what their code is: `perf-PID.map` in this directory.
const MAPS: &str = "/tmp";
/// Lines of such a file that are read.
const MAP_LINES: usize = 1 << 20;

/// Rewords what the recorder in process `process` sends.
pub(crate) fn reword(process: u32) -> Reword {
    let mut frames = Frames::new(Made::of(process), Built { process, begun: SystemTime::now() });
    Box::new(move |kind, text| match kind {
        NameKind::Plain => demangled(text),
        NameKind::Site => Some(frames.site(text)),
    })
}

/// A mangled name as its language writes it.
pub(crate) fn demangled(name: &str) -> Option<String> {
    if !name.starts_with("_Z") && !name.starts_with("_R") {
        return None;
    }
    match addr2line::demangle_auto(Cow::Borrowed(name), None) {
        Cow::Borrowed(_) => None,
        Cow::Owned(name) => Some(name),
    }
}

/// What stands behind a file that was built again while it was recorded.
const REBUILT: &str = " (built again meanwhile)";
/// A stack is not shown below this.
const MAIN: &str = "main (";
/// Python's interpreter: behind it come the lines that it executes, if they are known.
const INTERPRETER: [&str; 2] = ["_PyEval_", "PyEval_"];

/// Looks frames up.
struct Frames {
    /// The files looked into.
    files: HashMap<String, Code>,
    /// What was looked up.
    known: HashMap<String, String>,
    made: Made,
    built: Built,
}

impl Frames {
    fn new(made: Made, built: Built) -> Frames {
        Frames { files: HashMap::new(), known: HashMap::new(), made, built }
    }

    fn site(&mut self, text: &str) -> String {
        let texts: Vec<&str> = text.split(CALLED_BY).collect();
        let python = texts.iter().position(|text| is_python(text));
        let (native, python) = texts.split_at(python.unwrap_or(texts.len()));
        let mut found = Vec::new();
        for text in native {
            let frames = self.frame(text);
            let starts = |with: &str| frames.split(CALLED_BY).any(|frame| frame.starts_with(with));
            if !python.is_empty() && INTERPRETER.iter().any(|name| starts(name)) {
                break;
            }
            let is_main = starts(MAIN);
            found.push(frames);
            if is_main {
                break;
            }
        }
        found.extend(python.iter().map(|&line| line.to_owned()));
        found.join(CALLED_BY)
    }

    /// One frame; several, the innermost first, where functions were inlined.
    fn frame(&mut self, text: &str) -> String {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let found = if let Some(address) = text.strip_prefix("0x") {
            // Not kept: the compiler may have more to say of it later.
            return hexadecimal(address).and_then(|at| self.made.function(at)).unwrap_or_else(|| text.into());
        } else if let Some((file, at)) = place(text) {
            self.in_file(file, at)
        } else {
            demangled_frame(text)
        };
        self.known.insert(text.to_owned(), found.clone());
        found
    }

    fn in_file(&mut self, file: &str, at: At) -> String {
        let Frames { files, built, .. } = self;
        if built.again(Path::new(file)) {
            return format!("{file}{REBUILT}+0x{:x}", at.number());
        }
        let code = files.entry(file.to_owned()).or_insert_with(|| Code::read(Path::new(file)));
        let address = match at {
            At::Address(at) => at,
            At::Offset(at) => code.address(at).unwrap_or(at),
        };
        let lines = code.lines(address);
        if !lines.is_empty() {
            return lines.join(CALLED_BY);
        }
        match code.function(address) {
            Some(function) => format!("{function} (in {file})"),
            None => format!("{file}+0x{address:x}"),
        }
    }
}

/// When files were built.
struct Built {
    process: u32,
    /// When the recording began.
    begun: SystemTime,
}

impl Built {
    /// Whether a file is no longer the one that the process executes: its lines would be wrong ones.
    fn again(&self, file: &Path) -> bool {
        let Ok(facts) = file.metadata() else { return false };
        let is_newer = facts.modified().is_ok_and(|modified| modified > self.begun);
        is_newer && !self.executes(file, facts.ino())
    }

    /// Whether the process has mapped this very file, which it may have built itself.
    fn executes(&self, file: &Path, inode: u64) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process)).unwrap_or_default();
        let (path, inode) = (file.to_string_lossy(), inode.to_string());
        maps.lines().any(|line| line.ends_with(&*path) && line.split_whitespace().nth(4) == Some(&inode))
    }
}

/// Where code lies in a file.
#[derive(Clone, Copy)]
enum At {
    /// In the file's own terms.
    Address(u64),
    /// So far from the start of the file.
    Offset(u64),
}

impl At {
    fn number(self) -> u64 {
        match self {
            At::Address(at) | At::Offset(at) => at,
        }
    }
}

/// `/app/train.py:12 in load`.
fn is_python(text: &str) -> bool {
    let line = text.rsplit_once(" in ").and_then(|(place, _)| place.rsplit_once(':'));
    line.is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A frame that the recorder has named itself.
fn demangled_frame(text: &str) -> String {
    let (function, place) = text.split_once(" (").unwrap_or((text, ""));
    match demangled(function) {
        Some(function) if place.is_empty() => function,
        Some(function) => format!("{function} ({place}"),
        None => text.to_owned(),
    }
}

/// `/path/file+0x12`: code of a file, at an address; `/path/file@0x12`: at an offset.
fn place(text: &str) -> Option<(&str, At)> {
    let text = text.starts_with('/').then_some(text)?;
    let address = || Some((text.rsplit_once("+0x")?, At::Address as fn(u64) -> At));
    let ((file, at), made) =
        text.rsplit_once("@0x").map(|parts| (parts, At::Offset as _)).or_else(address)?;
    Some((file, made(hexadecimal(at)?)))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Code that compilers made at run time, by the file in which they list it for `perf`.
struct Made {
    file: PathBuf,
    /// Its length when it was read.
    length: u64,
    /// Address, end and name.
    functions: Vec<(u64, u64, String)>,
}

impl Made {
    fn of(process: u32) -> Made {
        Made { file: PathBuf::from(format!("{MAPS}/perf-{process}.map")), length: 0, functions: Vec::new() }
    }

    fn function(&mut self, at: u64) -> Option<String> {
        let facts = self.file.metadata().ok().filter(|facts| facts.is_file())?;
        let length = facts.len();
        if length != self.length {
            self.length = length;
            self.functions = read(&self.file);
        }
        // A function that was made anew is listed again.
        let holds = |(start, end, _): &&(u64, u64, String)| (*start..*end).contains(&at);
        self.functions.iter().rev().find(holds).map(|(_, _, name)| name.clone())
    }
}

/// Lines of "START BYTES NAME", the numbers hexadecimal; others are passed over.
fn read(file: &PathBuf) -> Vec<(u64, u64, String)> {
    let Ok(file) = File::open(file) else { return Vec::new() };
    let function = |line: String| {
        let mut parts = line.splitn(3, ' ');
        let start = hexadecimal(parts.next()?.trim_start_matches("0x"))?;
        let bytes = hexadecimal(parts.next()?.trim_start_matches("0x"))?;
        Some((start, start.checked_add(bytes)?, parts.next()?.trim().to_owned()))
    };
    BufReader::new(file).lines().map_while(Result::ok).take(MAP_LINES).filter_map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(made: Made) -> Frames {
        Frames::new(made, Built { process: std::process::id(), begun: SystemTime::now() })
    }

    fn frames() -> Frames {
        of(Made::of(0))
    }

    /// Builds a program with lines, and returns it and the offset of its function `here`.
    fn build(folder: &Path) -> (PathBuf, u64) {
        let (source, program) = (folder.join("here.c"), folder.join("program"));
        std::fs::write(&source, "int here(void) { return 1; }\nint main(void) { return here() - 1; }\n")
            .unwrap();
        let mut compile = std::process::Command::new("gcc");
        assert!(compile.args(["-g", "-O0", "-o"]).args([&program, &source]).status().unwrap().success());
        let symbols = std::process::Command::new("nm").arg(&program).output().unwrap();
        let symbols = String::from_utf8(symbols.stdout).unwrap();
        let line = symbols.lines().find(|line| line.ends_with(" T here")).unwrap();
        let at = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        (program.canonicalize().unwrap(), at)
    }

    #[test]
    fn names_of_cpp_and_rust_are_demangled_and_others_stay() {
        assert_eq!(demangled("_ZN3app5tableE").as_deref(), Some("app::table"));
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE").as_deref(), Some("core::fmt::write"));
        assert_eq!(demangled("_RNvC3app4grid").as_deref(), Some("app::grid"));
        for other in ["main", "_Z", "main.grid", ""] {
            assert_eq!(demangled(other), None, "{other}");
        }
    }

    #[test]
    fn code_of_a_file_is_named_by_function_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let (program, at) = build(folder.path());
        let site = format!(
            "{}+0x{at:x} < /absent+0x12 < _ZN3app4gridEv (g.cpp:2) < main (m.c:3) < start",
            program.display()
        );
        let mut frames = frames();
        let found = frames.site(&site);
        let parts: Vec<&str> = found.split(CALLED_BY).collect();
        assert!(parts[..parts.len() - 3].join(" ").contains("here (here.c:1)"), "{found}");
        assert_eq!(parts[parts.len() - 3..], ["/absent+0x12", "app::grid() (g.cpp:2)", "main (m.c:3)"]);
        assert_eq!(frames.site(&site), found, "the second time as well");
    }

    #[test]
    fn the_interpreter_is_left_out_where_its_lines_are_known() {
        let mut frames = frames();
        let native = "malloc < list_new (list.c:3) < _PyEval_EvalFrameDefault (ceval.c:9) < main (m.c:1)";
        assert_eq!(frames.site(native), native);
        let found = frames.site(&format!("{native} < /app/a.py:12 in load < /app/a.py:20 in <module>"));
        assert_eq!(found, "malloc < list_new (list.c:3) < /app/a.py:12 in load < /app/a.py:20 in <module>");
    }

    #[test]
    fn code_that_a_compiler_made_is_named_by_its_list_which_may_grow() {
        let mut list = tempfile::NamedTempFile::new().unwrap();
        let mut frames = of(Made { file: list.path().to_owned(), length: 0, functions: Vec::new() });
        assert_eq!(frames.site("0x1010"), "0x1010");
        list.write_all(b"1000 20 js::load x\nnonsense\nffffffffffffffff 20 beyond\n").unwrap();
        assert_eq!(frames.site("0x1010 < 0x1020"), "js::load x < 0x1020");
        list.write_all(b"0x1000 0x40 js::again\n").unwrap();
        assert_eq!(frames.site("0x1010 < 0x1020"), "js::again < js::again");
        let absent = Made { file: "/absent.map".into(), length: 0, functions: Vec::new() };
        assert_eq!(of(absent).site("0x1010"), "0x1010");
    }

    #[test]
    fn a_file_that_was_built_again_gives_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let (program, at) = build(folder.path());
        let site = format!("{}+0x{at:x}", program.display());
        assert!(of(Made::of(0)).site(&site).contains("here (here.c:1)"));
        let built = Built { process: std::process::id(), begun: SystemTime::UNIX_EPOCH };
        let found = Frames::new(Made::of(0), built).site(&site);
        assert_eq!(found, format!("{} (built again meanwhile)+0x{at:x}", program.display()));
        // What the process itself has built and runs is known.
        let built = Built { process: std::process::id(), begun: SystemTime::UNIX_EPOCH };
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let found = Frames::new(Made::of(0), built).site(&format!("{}+0x{at:x}", own.display()));
        assert!(!found.contains("built again"), "{found}");
    }
}
