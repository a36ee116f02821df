//! Names as people read them: C++ and Rust names demangled, and the frames of call sites looked up in the debug
//! information of the program and its libraries, or in what a compiler at run time says of its code.

use addr2line::Loader;
use homing_trace::{NameKind, Reword};
use object::{Object, ObjectSymbol, ReadCache, SymbolKind};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// What stands between the frames of a call site (`HOMING_CALLED_BY` of the wire).
const CALLED_BY: &str = " < ";
/// Where compilers at run time say what their code is: `perf-PID.map` in this directory.
const MAPS: &str = "/tmp";
/// Lines of such a file that are read.
const MAP_LINES: usize = 1 << 20;

/// Rewords what the recorder in process `process` sends.
pub(crate) fn reword(process: u32) -> Reword {
    let mut frames = Frames::new(Made::of(process));
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
}

impl Frames {
    fn new(made: Made) -> Frames {
        Frames { files: HashMap::new(), known: HashMap::new(), made }
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
            self.in_file(file, at).unwrap_or_else(|| bare(file, at))
        } else {
            demangled_frame(text)
        };
        self.known.insert(text.to_owned(), found.clone());
        found
    }

    fn in_file(&mut self, file: &str, at: u64) -> Option<String> {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), Code::read(file));
        }
        let code = self.files.get(file)?;
        let lines = code.lines(at);
        if !lines.is_empty() {
            return Some(lines.join(CALLED_BY));
        }
        Some(format!("{} (in {file})", code.function(at)?))
    }
}

/// The code of a file.
struct Code {
    /// Where it has debug information.
    debug: Option<Loader>,
    /// Address, end and name of its functions, by address.
    functions: Vec<(u64, u64, String)>,
}

impl Code {
    fn read(file: &str) -> Code {
        let mut functions = functions(file).unwrap_or_default();
        functions.sort_unstable();
        Code { debug: Loader::new(file).ok(), functions }
    }

    /// The function at an address by its symbol.
    fn function(&self, at: u64) -> Option<String> {
        let before = self.functions.partition_point(|(start, _, _)| *start <= at).checked_sub(1)?;
        let (_, end, name) = &self.functions[before];
        (at < *end).then(|| demangled(name).unwrap_or_else(|| name.clone()))
    }

    /// The functions at an address whose lines are known, inlined ones first.
    fn lines(&self, at: u64) -> Vec<String> {
        let Some(Ok(mut frames)) = self.debug.as_ref().map(|debug| debug.find_frames(at)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
            let name = name.or_else(|| self.function(at));
            let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
            let place = frame.location.and_then(|place| Some((file(place.file?), place.line?)));
            if let (Some(name), Some((file, line))) = (name, place) {
                found.push(format!("{name} ({file}:{line})"));
            }
        }
        found
    }
}

/// Address, end and name of the functions in an ELF file.
fn functions(file: &str) -> Option<Vec<(u64, u64, String)>> {
    let cache = ReadCache::new(File::open(file).ok()?);
    let object = object::File::parse(&cache).ok()?;
    let mut found = Vec::new();
    for symbol in object.symbols().chain(object.dynamic_symbols()) {
        let end = symbol.address().checked_add(symbol.size());
        if let (SymbolKind::Text, Some(end), Ok(name)) = (symbol.kind(), end, symbol.name()) {
            found.push((symbol.address(), end, name.to_owned()));
        }
    }
    Some(found)
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

/// `/path/file+0x12`: code of a file.
fn place(text: &str) -> Option<(&str, u64)> {
    let (file, at) = text.rsplit_once("+0x")?;
    Some((file.starts_with('/').then_some(file)?, hexadecimal(at)?))
}

fn bare(file: &str, at: u64) -> String {
    format!("{file}+0x{at:x}")
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

    #[inline(never)]
    fn here() -> u64 {
        std::hint::black_box(here as fn() -> u64) as usize as u64
    }

    /// The start of this program in memory.
    fn base() -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap()
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
        let program = std::env::current_exe().unwrap().canonicalize().unwrap();
        let site = format!(
            "{}+0x{:x} < /absent+0x12 < _ZN3app4gridEv (g.cpp:2) < main (m.c:3) < start",
            program.display(),
            here() - base()
        );
        let mut frames = Frames::new(Made::of(0));
        let found = frames.site(&site);
        let parts: Vec<&str> = found.split(CALLED_BY).collect();
        assert!(parts[..parts.len() - 3].join(" ").contains("here (frames.rs:"), "{found}");
        assert_eq!(parts[parts.len() - 3..], ["/absent+0x12", "app::grid() (g.cpp:2)", "main (m.c:3)"]);
        assert_eq!(frames.site(&site), found, "the second time as well");
    }

    #[test]
    fn the_interpreter_is_left_out_where_its_lines_are_known() {
        let mut frames = Frames::new(Made::of(0));
        let native = "malloc < list_new (list.c:3) < _PyEval_EvalFrameDefault (ceval.c:9) < main (m.c:1)";
        assert_eq!(frames.site(native), native);
        let found = frames.site(&format!("{native} < /app/a.py:12 in load < /app/a.py:20 in <module>"));
        assert_eq!(found, "malloc < list_new (list.c:3) < /app/a.py:12 in load < /app/a.py:20 in <module>");
    }

    #[test]
    fn code_that_a_compiler_made_is_named_by_its_list_which_may_grow() {
        let mut list = tempfile::NamedTempFile::new().unwrap();
        let mut frames = Frames::new(Made { file: list.path().to_owned(), length: 0, functions: Vec::new() });
        assert_eq!(frames.site("0x1010"), "0x1010");
        list.write_all(b"1000 20 js::load x\nnonsense\nffffffffffffffff 20 beyond\n").unwrap();
        assert_eq!(frames.site("0x1010 < 0x1020"), "js::load x < 0x1020");
        list.write_all(b"0x1000 0x40 js::again\n").unwrap();
        assert_eq!(frames.site("0x1010 < 0x1020"), "js::again < js::again");
        let absent = Made { file: "/absent.map".into(), length: 0, functions: Vec::new() };
        assert_eq!(Frames::new(absent).site("0x1010"), "0x1010");
    }
}
