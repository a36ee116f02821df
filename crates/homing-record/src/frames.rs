//! Names as people read them: C++ and Rust names demangled, and the frames of call sites looked up in the debug
//! information of the program and its libraries, or in what a compiler at run time says of its code.

use addr2line::Loader;
use homing_trace::{NameKind, Reword};
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

/// Looks frames up.
struct Frames {
    /// The files looked into; `None`: there is nothing to be found.
    files: HashMap<String, Option<Loader>>,
    /// What was looked up.
    known: HashMap<String, String>,
    made: Made,
}

impl Frames {
    fn new(made: Made) -> Frames {
        Frames { files: HashMap::new(), known: HashMap::new(), made }
    }

    fn site(&mut self, text: &str) -> String {
        let frames: Vec<String> = text.split(CALLED_BY).map(|frame| self.frame(frame)).collect();
        frames.join(CALLED_BY)
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
            self.files.insert(file.to_owned(), Loader::new(file).ok());
        }
        let loader = self.files.get(file)?.as_ref()?;
        let lines = lines(loader, at);
        if !lines.is_empty() {
            return Some(lines.join(CALLED_BY));
        }
        let symbol = loader.find_symbol(at)?;
        Some(format!("{} (in {file})", demangled(symbol).unwrap_or_else(|| symbol.to_owned())))
    }
}

/// The functions at an address whose lines are known, inlined ones first.
fn lines(loader: &Loader, at: u64) -> Vec<String> {
    let Ok(mut frames) = loader.find_frames(at) else { return Vec::new() };
    let mut found = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
        let name = name.or_else(|| loader.find_symbol(at).map(|symbol| demangled(symbol).unwrap_or(symbol.into())));
        let place = frame.location.and_then(|place| Some((place.file?.rsplit('/').next()?.to_owned(), place.line?)));
        if let (Some(name), Some((file, line))) = (name, place) {
            found.push(format!("{name} ({file}:{line})"));
        }
    }
    found
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
