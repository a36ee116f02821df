//! Where the data of a name come from: the other way round than `frames.rs`, from a name as reports print it to
//! address ranges of code, and to variables.

mod name;

pub use name::{Frame, Name, NameError};

use crate::code::Code;
use homing_linux::proc::symbols::{Identity, Table};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file of code: the program, or a library of it.
pub struct Module {
    /// Its path.
    pub path: PathBuf,
    /// Its device and inode.
    pub identity: (u64, u64),
    code: Code,
    table: Table,
}

impl Module {
    /// Reads its symbols and where it has its lines. `None` if it is no ELF file that can be read.
    pub fn read(path: &Path) -> Option<Module> {
        let facts = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let table = Table::read(path, Identity::Inode(facts.ino()), 1).ok()?;
        Some(Module {
            path: path.to_owned(),
            identity: (facts.dev(), facts.ino()),
            code: Code::read(path),
            table,
        })
    }

    /// Address ranges of the code that a frame names: calls made there have it on their stack. In the file's own
    /// terms, by address; none touches another.
    pub fn code_of(&self, frame: &Frame) -> Vec<(u64, u64)> {
        match frame {
            Frame::Address(file, address) => {
                let here = self.is(file).then_some((*address, address.saturating_add(1)));
                // A return address is behind its call, and the frame names the call.
                here.into_iter().collect()
            }
            Frame::Named { file: Some(file), .. } if !self.is(file) => Vec::new(),
            Frame::Named { function, place, .. } => {
                let function = function.as_deref();
                let place = place.as_ref().map(|(file, line)| (file.as_str(), *line));
                self.code.ranges(function, place)
            }
        }
    }

    /// Addresses of the variables with a name, and those behind their last bytes. `library`: only of this one.
    pub fn variables(&self, name: &str, library: Option<&str>) -> Vec<(u64, u64)> {
        if library.is_some_and(|library| !self.path.ends_with(library)) {
            return Vec::new();
        }
        let is =
            |written: &str| written == name || crate::frames::demangled(written).is_some_and(|it| it == name);
        let symbols = self.table.symbols().iter().filter(|symbol| is(&symbol.name));
        symbols.map(|symbol| (symbol.start, symbol.end)).collect()
    }

    /// Whether its lines are known.
    pub fn has_lines(&self) -> bool {
        self.code.has_lines()
    }

    fn is(&self, file: &Path) -> bool {
        self.path == file || file.metadata().is_ok_and(|facts| self.identity == (facts.dev(), facts.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const SOURCE: &str = "#include <stdlib.h>\n\
        static inline __attribute__((always_inline)) void *inner(size_t n) {\n\
        \treturn calloc(n, 1);\n\
        }\n\
        static char table[1 << 16];\n\
        __attribute__((noinline)) char *grid(size_t n) {\n\
        \tchar *a = inner(n);\n\
        \tchar *b = malloc(n);\n\
        \ta[0] = b[0] = 1;\n\
        \treturn a[n / 2] ? b : a;\n\
        }\n\
        int main(int count, char **words) { table[count] = 1; return grid(1 << count)[0] + table[words[0][0]]; }\n";

    /// Return addresses of calls, by what is called.
    fn calls(program: &Path, of: &str) -> Vec<u64> {
        let output =
            Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let address = |line: &str| u64::from_str_radix(line.trim().split(':').next()?, 16).ok();
        let called = format!("<{of}@plt>");
        text.lines().filter(|line| line.contains(&called)).filter_map(address).collect()
    }

    #[test]
    fn calls_of_a_line_are_found_also_where_they_were_inlined() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("grid.c"), folder.path().join("program"));
        std::fs::write(&source, SOURCE).unwrap();
        for flags in [["-O2", "-pie"], ["-O2", "-no-pie"], ["-O0", "-gdwarf-4"]] {
            let mut compile = Command::new("gcc");
            compile.args(flags).args(["-g", "-o"]).args([&program, &source]);
            assert!(compile.status().unwrap().success());
            let module = Module::read(&program).unwrap();
            let code = |name: &str| match Name::parse(name).unwrap() {
                Name::Frames(frames) => module.code_of(&frames[0]),
                Name::Bare(word) => module.code_of(&Frame::function(&word)),
                other => panic!("{other:?}"),
            };
            let holds = |name: &str, of: &str| {
                let ranges = code(name);
                let calls = calls(&program, of);
                assert!(!calls.is_empty());
                calls.iter().all(|call| ranges.iter().any(|(from, to)| (from..to).contains(&call)))
            };
            // Line 3 calls, within line 7.
            for (name, calloc, malloc) in [
                ("grid.c:3", true, false),
                ("inner (grid.c:3)", true, false),
                ("grid (grid.c:3)", false, false),
                ("grid.c:8", false, true),
                ("grid (grid.c:8)", false, true),
                ("inner", true, false),
                ("other.c:8", false, false),
                ("grid.c:80", false, false),
            ] {
                assert_eq!(
                    (holds(name, "calloc"), holds(name, "malloc")),
                    (calloc, malloc),
                    "{flags:?} {name}"
                );
            }
            if flags[0] == "-O2" {
                assert!(
                    holds("grid (grid.c:7)", "calloc") && holds("grid", "calloc") && holds("grid", "malloc")
                );
            }
            let table = module.variables("table", None);
            assert_eq!(table.len(), 1);
            assert_eq!(table[0].1 - table[0].0, 1 << 16);
            assert!(module.variables("table", Some("libx.so")).is_empty() && module.has_lines());
            let at = calls(&program, "malloc")[0];
            let frame = Frame::Address(program.clone(), at);
            assert_eq!(module.code_of(&frame), [(at, at + 1)]);
        }
    }

    #[test]
    fn what_is_no_code_is_no_module() {
        assert!(Module::read(Path::new("/proc/self/maps")).is_none());
        assert!(Module::read(Path::new("/absent")).is_none());
    }
}
