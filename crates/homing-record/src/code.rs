//! The code of an ELF file: its functions, and their lines from the file itself or from the separate file that has its
//! debug information.

use crate::frames::demangled;
use addr2line::{Loader, Location};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where distributions put debug information.
const DEBUG: &str = "/usr/lib/debug";

/// The code of a file.
#[derive(Default)]
pub(crate) struct Code {
    /// Where it has debug information.
    debug: Option<Loader>,
    /// Address, end and name of its functions, by address.
    functions: Vec<(u64, u64, String)>,
    /// Offset in the file, bytes and address of what is loaded.
    segments: Vec<(u64, u64, u64)>,
}

impl Code {
    pub(crate) fn read(file: &Path) -> Code {
        Code::with_debug_in(file, Path::new(DEBUG))
    }

    /// The same with another directory for separate debug files.
    fn with_debug_in(file: &Path, folder: &Path) -> Code {
        let Some(facts) = Facts::of(file) else { return Code::default() };
        let separate = if facts.has_lines { None } else { facts.separate(file, folder) };
        let (lines, alternate) = match separate {
            Some((path, of_it)) => {
                let alternate = of_it.alternate(&path, folder);
                (path, alternate)
            }
            None => (file.to_owned(), facts.alternate(file, folder)),
        };
        let mut functions = facts.functions;
        if lines != file {
            functions.extend(Facts::of(&lines).map(|facts| facts.functions).unwrap_or_default());
        }
        functions.sort_unstable();
        Code { debug: Loader::new_with_sup(lines, alternate).ok(), functions, segments: facts.segments }
    }

    /// The address, in the file's own terms, of code at an offset of the file.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let holds = |(start, bytes, _): &&(u64, u64, u64)| offset >= *start && offset - *start < *bytes;
        let (start, _, address) = self.segments.iter().find(holds)?;
        address.checked_add(offset - start)
    }

    /// The function at an address by its symbol.
    pub(crate) fn function(&self, at: u64) -> Option<String> {
        let before = self.functions.partition_point(|(start, _, _)| *start <= at).checked_sub(1)?;
        let (_, end, name) = &self.functions[before];
        (at < *end).then(|| demangled(name).unwrap_or_else(|| name.clone()))
    }

    /// The functions at an address whose lines are known, inlined ones first.
    pub(crate) fn lines(&self, at: u64) -> Vec<String> {
        let Some(debug) = &self.debug else { return Vec::new() };
        // First, since the crate reads the lines of a unit once, and with a split file (.dwo) it takes their names from
        // there, where DWARF 5 does not have them.
        let place = debug.find_location(at).ok().flatten().and_then(line);
        let mut found = Vec::new();
        if let Ok(mut frames) = debug.find_frames(at) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
                let name = name.or_else(|| self.function(at));
                found.extend(name.zip(frame.location.and_then(line)).map(named));
            }
        }
        if found.is_empty() {
            found.extend(self.function(at).zip(place).map(named));
        }
        found
    }

    /// Whether lines are known.
    pub(crate) fn has_lines(&self) -> bool {
        let all =
            |debug: &Loader| debug.find_location_range(0, u64::MAX).is_ok_and(|mut all| all.next().is_some());
        self.debug.as_ref().is_some_and(all)
    }

    /// Address ranges whose code, or what it was inlined into, is of this function and at this line of a file with this
    /// name; by address, none touches another. What is not given may be anything.
    pub(crate) fn ranges(&self, function: Option<&str>, place: Option<(&str, u32)>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        if let (Some(wanted), None) = (function, place) {
            let of = self.functions.iter().filter(|(_, _, name)| is_function(name, wanted));
            found.extend(of.map(|(start, end, _)| (*start, *end)));
        }
        let rows =
            || self.debug.iter().filter_map(|debug| debug.find_location_range(0, u64::MAX).ok()).flatten();
        // Frames take long to look up, and most files have no line of the source file at all.
        if let Some((file, _)) = place {
            let is_of = |path: &str| path.rsplit('/').next() == Some(file);
            if !rows().any(|(_, _, place)| place.file.is_some_and(is_of)) {
                return found;
            }
        }
        for (start, bytes, _) in rows().filter(|(_, bytes, _)| *bytes > 0) {
            self.within((start, start + bytes), &|at| self.has_frame(at, function, place), &mut found);
        }
        found.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, end) in found {
            match ranges.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => ranges.push((start, end)),
            }
        }
        ranges
    }

    /// The part of a row of the line table for which something holds. Both ends are asked; where they differ, since a
    /// function was inlined into a part of the row, each half is.
    fn within(&self, (start, end): (u64, u64), holds: &dyn Fn(u64) -> bool, found: &mut Vec<(u64, u64)>) {
        match (holds(start), holds(end - 1)) {
            (true, true) => found.push((start, end)),
            (false, false) => {}
            (first, _) if end - start <= 2 => {
                found.push(if first { (start, start + 1) } else { (end - 1, end) })
            }
            _ => {
                let middle = start + (end - start) / 2;
                self.within((start, middle), holds, found);
                self.within((middle, end), holds, found);
            }
        }
    }

    /// Whether one of the frames at an address is of this function and at this line.
    fn has_frame(&self, at: u64, function: Option<&str>, place: Option<(&str, u32)>) -> bool {
        let Some(mut frames) = self.debug.as_ref().and_then(|debug| debug.find_frames(at).ok()) else {
            return false;
        };
        while let Ok(Some(frame)) = frames.next() {
            let is_there = place.is_none_or(|(wanted, number)| {
                let found = frame.location.filter(|found| found.line == Some(number)).and_then(line);
                found.is_some_and(|(file, _)| file == wanted)
            });
            let is_it = |wanted: &str| match &frame.function {
                Some(name) => name.raw_name().is_ok_and(|name| is_function(&name, wanted)),
                None => self.function(at).is_some_and(|name| name == wanted),
            };
            if is_there && function.is_none_or(is_it) {
                return true;
            }
        }
        false
    }
}

/// Whether a function is meant, by the name that the linker has, or as its language writes it, with its arguments or
/// without.
fn is_function(name: &str, wanted: &str) -> bool {
    let is =
        |name: &str| name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('('));
    // Most names are others, which shows before they are demangled.
    let bare = wanted.split(['(', '<']).next().unwrap_or_default();
    let last = bare.rsplit([':', ' ']).next().unwrap_or_default();
    is(name) || (name.contains(last) && demangled(name).is_some_and(|name| is(&name)))
}

/// File and line of code.
fn line(place: Location<'_>) -> Option<(String, u32)> {
    let path = place.file?;
    Some((path.rsplit('/').next().unwrap_or(path).to_owned(), place.line?))
}

fn named((function, (file, line)): (String, (String, u32))) -> String {
    format!("{function} ({file}:{line})")
}

/// What an ELF file says of itself.
#[derive(Default)]
struct Facts {
    has_lines: bool,
    build_id: Option<Vec<u8>>,
    /// The name of the file with its debug information, and that file's checksum.
    link: Option<(PathBuf, u32)>,
    /// The file with what several debug files share, and its build id.
    alternate: Option<(PathBuf, Vec<u8>)>,
    functions: Vec<(u64, u64, String)>,
    segments: Vec<(u64, u64, u64)>,
}

impl Facts {
    fn of(file: &Path) -> Option<Facts> {
        let cache = ReadCache::new(File::open(file).ok()?);
        let object = object::File::parse(&cache).ok()?;
        let name = |bytes: &[u8]| PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        let has = |section: &str| object.section_by_name(section).is_some_and(|section| section.size() > 0);
        let link = object.gnu_debuglink().ok().flatten().map(|(file, checksum)| (name(file), checksum));
        let alternate = object.gnu_debugaltlink().ok().flatten().map(|(file, id)| (name(file), id.to_vec()));
        let segments = object.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset, bytes, segment.address())
        });
        let mut functions = Vec::new();
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let end = symbol.address().checked_add(symbol.size());
            if let (SymbolKind::Text, Some(end), Ok(name)) = (symbol.kind(), end, symbol.name()) {
                functions.push((symbol.address(), end, name.to_owned()));
            }
        }
        Some(Facts {
            has_lines: has(".debug_info") && has(".debug_line"),
            build_id: object.build_id().ok().flatten().map(<[u8]>::to_vec),
            link,
            alternate,
            functions,
            segments: segments.collect(),
        })
    }

    /// The separate file with the debug information of `file`, where gdb looks for it, too.
    fn separate(&self, file: &Path, folder: &Path) -> Option<(PathBuf, Facts)> {
        let by_id = self.build_id.as_deref().and_then(|id| by_build_id(id, folder));
        let linked = self.link.iter().flat_map(|(name, _)| {
            let beside = file.canonicalize().ok().and_then(|file| Some(file.parent()?.to_owned()));
            let beside = beside.unwrap_or_default();
            let in_folder = folder.join(beside.strip_prefix("/").unwrap_or(&beside));
            [beside.join(name), beside.join(".debug").join(name), in_folder.join(name)]
        });
        by_id.into_iter().chain(linked).find_map(|path| {
            let facts = Facts::of(&path)?;
            (facts.has_lines && self.is_of(&path, &facts)).then_some((path, facts))
        })
    }

    /// Whether a debug file is of this very build: another one's lines would be wrong.
    fn is_of(&self, path: &Path, debug: &Facts) -> bool {
        match (&self.build_id, &debug.build_id, &self.link) {
            (Some(own), Some(its), _) => own == its,
            (_, _, Some((_, wanted))) => checksum(path) == Some(*wanted),
            _ => false,
        }
    }

    /// The file with what several debug files share, to which this one in `path` refers.
    fn alternate(&self, path: &Path, folder: &Path) -> Option<PathBuf> {
        let (name, id) = self.alternate.as_ref()?;
        let beside = path.canonicalize().ok()?.parent()?.join(name);
        let found = [Some(beside), by_build_id(id, folder)].into_iter().flatten();
        found.into_iter().find(|path| Facts::of(path).and_then(|facts| facts.build_id).as_ref() == Some(id))
    }
}

/// `.build-id/ab/cdef.debug` below a directory.
fn by_build_id(id: &[u8], folder: &Path) -> Option<PathBuf> {
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = id.split_first()?;
    let name = format!("{}.debug", hexadecimal(rest));
    Some(folder.join(".build-id").join(hexadecimal(&[*first])).join(name))
}

/// As in `.gnu_debuglink`.
fn checksum(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let (mut hasher, mut part) = (crc32fast::Hasher::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part).ok()? {
            0 => return Some(hasher.finalize()),
            bytes => hasher.update(&part[..bytes]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const SOURCE: &str = "#include <stdlib.h>\n\n__attribute__((noinline)) void *grid(void)\n{\n\
        return malloc(8);\n}\nint main(void) { return grid() == 0; }\n";

    /// A directory with programs that are built in it.
    struct Builds(tempfile::TempDir);

    impl Builds {
        fn new() -> Builds {
            let builds = Builds(tempfile::tempdir().unwrap());
            std::fs::write(builds.path("grid.c"), SOURCE).unwrap();
            builds
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn run(&self, command: &str) -> bool {
            let mut shell = Command::new("sh");
            shell.args(["-ec", command]).current_dir(self.0.path());
            shell.output().unwrap().status.success()
        }

        fn build(&self, command: &str) {
            assert!(self.run(command), "{command}");
        }

        /// The names of the code within `grid`, whose address is that in the program before it was stripped.
        fn grid(&self, whole: &str, program: &str) -> (Vec<String>, Option<String>) {
            let facts = Facts::of(&self.path(whole)).unwrap();
            let (start, _, _) = facts.functions.iter().find(|(_, _, name)| name == "grid").unwrap();
            let code = Code::with_debug_in(&self.path(program), &self.path("debug"));
            (code.lines(start + 1), code.function(start + 1))
        }

        /// Separates the debug information of `whole` from `program`, which has none.
        fn separate(&self, linked: bool) {
            self.build(
                "gcc -g -O1 grid.c -o whole && cp whole program && objcopy --only-keep-debug whole program.debug",
            );
            self.build("strip program");
            if linked {
                self.build("objcopy --add-gnu-debuglink=program.debug program");
            }
        }
    }

    fn is_grid((lines, _): (Vec<String>, Option<String>)) {
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("grid (grid.c:"), "{lines:?}");
    }

    #[test]
    fn lines_come_from_compressed_and_split_debug_information() {
        let builds = Builds::new();
        for how in ["gcc -g -gz=zlib", "gcc -g -gz=zlib-gnu", "gcc -g -gsplit-dwarf", "gcc -g -gdwarf-4"] {
            builds.build(&format!("{how} -O1 grid.c -o program"));
            is_grid(builds.grid("program", "program"));
        }
        // Tools of other versions may not know these.
        let newer = [
            "gcc -g -O1 grid.c -o whole && objcopy --compress-debug-sections=zstd whole program",
            "clang -g -gdwarf-5 -O1 grid.c -o program",
            "clang -g -gdwarf-5 -gsplit-dwarf -O1 grid.c -o program",
            "clang -g -gdwarf-5 -gsplit-dwarf -O1 grid.c -o program && dwp -e program -o program.dwp && rm *.dwo",
        ];
        let built = newer.iter().filter(|how| {
            let is_built = builds.run(how);
            if is_built {
                is_grid(builds.grid("program", "program"));
            }
            is_built
        });
        eprintln!(
            "skipped {} of {} builds that the tools here cannot make",
            newer.len() - built.count(),
            newer.len()
        );
    }

    #[test]
    fn lines_come_from_the_file_that_a_stripped_program_links_to() {
        let builds = Builds::new();
        builds.separate(true);
        is_grid(builds.grid("whole", "program"));
        builds.build("mkdir .debug && mv program.debug .debug");
        is_grid(builds.grid("whole", "program"));
        let below =
            builds.path("debug").join(builds.0.path().canonicalize().unwrap().strip_prefix("/").unwrap());
        builds.build(&format!("mkdir -p {0} && mv .debug/program.debug {0}", below.display()));
        is_grid(builds.grid("whole", "program"));
    }

    #[test]
    fn lines_come_from_the_file_with_the_same_build_id() {
        let builds = Builds::new();
        builds.separate(false);
        assert_eq!(builds.grid("whole", "program"), (vec![], None));
        let id = Facts::of(&builds.path("whole")).unwrap().build_id.unwrap();
        let place = by_build_id(&id, Path::new("debug")).unwrap();
        let folder = place.parent().unwrap();
        builds.build(&format!("mkdir -p {} && mv program.debug {}", folder.display(), place.display()));
        is_grid(builds.grid("whole", "program"));
    }

    #[test]
    fn debug_information_of_another_build_gives_no_lines() {
        let builds = Builds::new();
        builds.separate(true);
        builds.build("echo 'int other;' >> grid.c && gcc -g -O1 grid.c -o other");
        builds.build("objcopy --only-keep-debug other program.debug");
        assert_eq!(builds.grid("whole", "program"), (vec![], None));
        // Without build ids the checksum tells.
        builds.build("gcc -g -O1 -Wl,--build-id=none grid.c -o whole && cp whole program");
        builds.build("objcopy --only-keep-debug whole program.debug && strip program");
        builds.build("objcopy --add-gnu-debuglink=program.debug program");
        is_grid(builds.grid("whole", "program"));
        builds.build("echo 'int more;' >> grid.c && gcc -g -O1 -Wl,--build-id=none grid.c -o other");
        builds.build("objcopy --only-keep-debug other program.debug");
        assert_eq!(builds.grid("whole", "program"), (vec![], None));
    }

    #[test]
    fn an_offset_in_the_file_is_an_address_of_its_own() {
        let builds = Builds::new();
        builds.build("gcc -O1 -Wl,-Ttext-segment=0x10000000 -no-pie grid.c -o program");
        let facts = Facts::of(&builds.path("program")).unwrap();
        let (start, _, _) = *facts.functions.iter().find(|(_, _, name)| name == "grid").unwrap();
        let code = Code::read(&builds.path("program"));
        let offset = start - 0x1000_0000;
        assert_eq!(code.address(offset), Some(start));
        assert_eq!(code.function(start).as_deref(), Some("grid"));
        assert_eq!(code.address(u64::MAX), None);
    }
}
