//! Programs of Go, whose allocator is code of their own: the Valgrind tool has to look for it.

use object::{Object, ReadCache};
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

/// Go's linker puts it into every program.
const MARK: &str = ".go.buildinfo";

/// Whether a command starts a program of Go: itself, or as a word of what a wrapper is to start.
pub(crate) fn is_started(program: &Path, command: &[OsString]) -> bool {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let mut words = words.iter().flat_map(|word| word.split_whitespace()).map(Path::new);
    is_go(program) || words.any(is_go)
}

fn is_go(file: &Path) -> bool {
    let is_marked = |file: File| {
        let cache = ReadCache::new(file);
        object::File::parse(&cache).is_ok_and(|object| object.section_by_name(MARK).is_some())
    };
    file.is_file() && File::open(file).is_ok_and(is_marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_go_is_found_behind_a_wrapper() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, marked) = (std::env::current_exe().unwrap(), folder.path().join("marked"));
        let (mark, text) =
            (format!("{MARK}={}", folder.path().join("text").display()), folder.path().join("text"));
        std::fs::write(text, "Go").unwrap();
        let objcopy = std::process::Command::new("objcopy")
            .args(["--add-section", &mark])
            .args([&plain, &marked])
            .status()
            .unwrap();
        assert!(objcopy.success());
        let words = |text: &str| vec![OsString::from("sh"), "-c".into(), text.into()];
        assert!(is_started(&marked, &[]));
        assert!(is_started(&plain, &words(&format!("X=1 {} --fast", marked.display()))));
        assert!(!is_started(&plain, &words(&format!("{} /absent", plain.display()))));
    }
}
