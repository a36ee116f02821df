//! The helper that a program starts itself, by a library that is preloaded into it (`preload/scan.c`), so that nothing
//! has to be injected: what programs that the engine launches are given, and how the helper is found again.
//!
//! The library has a *mark* in its data: a name, and the address of the page that it shares with the helper. What the
//! memory of a program says is only a hint: the page must be private memory of the program's own that begins as it
//! should, and the helper a process that shares the program's memory.

use super::code::{at, words};
use super::PAGE;
use crate::ld_preload::{self, PRELOAD_ENV};
use crate::proc::maps::Mapping;
use crate::proc::{Pid, Proc};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The library, below the directory of the recorders.
pub const LIBRARY: &str = "preload/libhoming-scan.so";

/// The variable with the number of the engine. Without it, or when that process has ended, the library does nothing.
const ENGINE_ENV: &str = "HOMING_SCAN";

/// What a mark begins with.
const MARK: &[u8; 16] = b"homing-scan mark";
/// What follows it: the library has not begun yet, ...
const NOT_YET: u64 = 0;
/// ... it started no helper; else the address of the page.
const NONE: u64 = 1;

/// What a program is given in its environment so that it, and what it executes, start a helper: variables and their
/// values, which extend those that `inherited` has. None if the path cannot stand there.
pub fn environment(
    library: &Path,
    inherited: impl Fn(&str) -> Option<OsString>,
) -> Option<[(&'static str, OsString); 3]> {
    let [preload, asan] = ld_preload::variables(library, inherited)?;
    Some([preload, (ENGINE_ENV, std::process::id().to_string().into()), asan])
}

/// True if a process has had from its birth the environment that this engine gives to programs. A helper has that of
/// the program that it was started in, also when that has ended.
pub fn is_ours(proc: &Proc, pid: Pid) -> bool {
    let ours = format!("{ENGINE_ENV}={}", std::process::id());
    let environment = std::fs::read(proc.path(pid, "environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == ours.as_bytes())
}

/// What a process has of a preloaded helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preloaded {
    /// It started one.
    Started {
        /// Address of the shared page.
        control: u64,
        /// The helper's number as the program knows it.
        helper: Pid,
    },
    /// It is still being loaded and will, or executes another program just now: worth another look.
    Expected,
    /// Nothing.
    None,
}

/// Looks for a preloaded helper.
///
/// # Errors
/// If the process has ended, or may not be asked about.
pub fn look(proc: &Proc, pid: Pid, memory: &File) -> io::Result<Preloaded> {
    let maps = proc.maps(pid).map_err(crate::ptrace::to_io)?;
    let library = |mapping: &&Mapping| mapping.name.ends_with(&format!("/{LIBRARY}"));
    if !maps.iter().any(|mapping| library(&mapping)) {
        return Ok(if will_load(proc, pid)? { Preloaded::Expected } else { Preloaded::None });
    }
    let data = maps.iter().filter(|mapping| library(mapping) && mapping.write && !mapping.shared);
    match data.filter_map(|mapping| mark(mapping, memory)).next() {
        // Its data are not mapped yet.
        Option::None | Some(NOT_YET) => Ok(Preloaded::Expected),
        Some(NONE) => Ok(Preloaded::None),
        Some(control) => started(proc, pid, &maps, memory, control),
    }
}

/// The word behind the mark.
fn mark(mapping: &Mapping, memory: &File) -> Option<u64> {
    // The data of the library are a page or two; whatever else has its name may be larger.
    let mut bytes = vec![0; (mapping.end - mapping.start).min(4 * PAGE) as usize];
    memory.read_exact_at(&mut bytes, mapping.start).ok()?;
    let at = (0..bytes.len().checked_sub(24)?).step_by(8).find(|&at| bytes[at..].starts_with(MARK))?;
    Some(u64::from_ne_bytes(bytes[at + 16..at + 24].try_into().ok()?))
}

/// The helper of that page, if it is one, and the process's own: a forked child has the page of its parent. Mappings
/// and memory may be those of two programs if the process executes another one just now, which starts a helper, too.
fn started(proc: &Proc, pid: Pid, maps: &[Mapping], memory: &File, control: u64) -> io::Result<Preloaded> {
    let own = |mapping: &&Mapping| {
        mapping.start <= control
            && control.checked_add(PAGE).is_some_and(|end| end <= mapping.end)
            && (mapping.read, mapping.write, mapping.shared, mapping.inode) == (true, true, false, 0)
    };
    let mut page = [0; PAGE as usize];
    let there = control.is_multiple_of(PAGE) && maps.iter().any(|mapping| own(&mapping));
    if !there || memory.read_exact_at(&mut page, control).is_err() {
        return Ok(Preloaded::Expected);
    }
    let word = |at: u64| {
        let at = at as usize;
        u64::from_ne_bytes(page[at..at + 8].try_into().unwrap_or_default())
    };
    let inside = proc.status(pid).map_err(crate::ptrace::to_io)?.inside;
    let whole = words().iter().all(|[at, value]| word(*at) == *value);
    let helper = Pid(word(at::HELPER) as i32);
    let its_own = word(at::PROGRAM) == inside.0 as u64 && word(at::ENDED) == 0 && helper.0 > 0;
    Ok(if whole && its_own { Preloaded::Started { control, helper } } else { Preloaded::None })
}

/// Entries of `/proc/PID/auxv`: where the dynamic linker is, and whether it ignores most of `LD_PRELOAD`.
const AT_BASE: u64 = 7;
const AT_SECURE: u64 = 23;

/// Whether the dynamic linker of a process is to load the library: its environment names it, there is a dynamic linker,
/// and the program has no more privileges than who executed it. True also if none of that can be known, right after
/// exec.
fn will_load(proc: &Proc, pid: Pid) -> io::Result<bool> {
    let read = |file: &str| std::fs::read(proc.path(pid, file));
    let (auxiliary, environment) = (read("auxv")?, read("environ")?);
    let key = auxiliary.iter().take(8).any(|byte| *byte != 0);
    // A program with an empty environment is waited for though nothing will come.
    if !key || environment.is_empty() {
        return Ok(true);
    }
    let names_it = |variable: &[u8]| {
        let value = variable.strip_prefix(PRELOAD_ENV.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        let mut paths = value.unwrap_or_default().split(|byte| b" :".contains(byte));
        paths.any(|path| path.ends_with(LIBRARY.as_bytes()))
    };
    let entry = |wanted: u64| {
        let mut entries = auxiliary.chunks_exact(16).filter_map(|entry| {
            let word = |at: usize| Some(u64::from_ne_bytes(entry[at..at + 8].try_into().ok()?));
            Some((word(0)?, word(8)?))
        });
        entries.find(|(key, _)| *key == wanted).map_or(0, |(_, value)| value)
    };
    let named = environment.split(|byte| *byte == 0).any(names_it);
    Ok(named && entry(AT_BASE) != 0 && entry(AT_SECURE) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_extended_and_keeps_what_it_had() {
        let library = Path::new("/usr/lib/homing/preload/libhoming-scan.so");
        let values = |inherited: fn(&str) -> Option<OsString>| {
            environment(library, inherited).unwrap().map(|(_, value)| value.into_string().unwrap())
        };
        let me = std::process::id().to_string();
        let of_library = library.to_str().unwrap();
        assert_eq!(values(|_| None), [of_library, &me, "verify_asan_link_order=0"]);
        assert_eq!(values(|_| Some("".into())), [of_library, &me, "verify_asan_link_order=0"]);
        let before = values(|name| Some(if name == PRELOAD_ENV { "liba.so /b.so" } else { "x=1" }.into()));
        assert_eq!(before, [&format!("liba.so /b.so:{of_library}"), &me, "x=1:verify_asan_link_order=0"]);
        for bad in ["/a b/x.so", "/a:b/x.so", "/$LIB/x.so", "x.so"] {
            assert_eq!(environment(Path::new(bad), |_| None), None, "{bad}");
        }
    }

    #[test]
    fn who_will_load_the_library_is_told_by_environment_and_program() {
        let root = tempfile::tempdir().unwrap();
        let (proc, pid) = (Proc::at(root.path()), Pid(7));
        std::fs::create_dir(root.path().join("7")).unwrap();
        let auxiliary = |base: u64, secure: u64| -> Vec<u8> {
            [AT_BASE, base, AT_SECURE, secure, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let loads = |environment: &str, base: u64, secure: u64| {
            std::fs::write(root.path().join("7/environ"), environment).unwrap();
            std::fs::write(root.path().join("7/auxv"), auxiliary(base, secure)).unwrap();
            will_load(&proc, pid).unwrap()
        };
        let named = "A=1\0LD_PRELOAD=/b.so:/x/preload/libhoming-scan.so\0C=\0";
        assert!(loads(named, 0x7000, 0));
        assert!(!loads(named, 0, 0), "a static program");
        assert!(!loads(named, 0x7000, 1), "a program with another user's rights");
        assert!(!loads("A=1\0LD_PRELOAD=/b.so\0", 0x7000, 0));
        assert!(!loads("OLD_PRELOAD=/x/preload/libhoming-scan.so\0", 0x7000, 0));
        assert!(loads("", 0x7000, 0), "right after exec");
        std::fs::write(root.path().join("7/auxv"), [0; 16]).unwrap();
        std::fs::write(root.path().join("7/environ"), named).unwrap();
        assert!(will_load(&proc, pid).unwrap(), "right after exec");
        assert!(will_load(&proc, Pid(8)).is_err());
    }

    #[test]
    fn a_helper_is_ours_by_its_environment() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("7")).unwrap();
        let is_ours = |environment: &str| {
            std::fs::write(root.path().join("7/environ"), environment).unwrap();
            super::is_ours(&Proc::at(root.path()), Pid(7))
        };
        let me = std::process::id();
        assert!(is_ours(&format!("A=1\0HOMING_SCAN={me}\0B=2\0")));
        assert!(!is_ours(&format!("A=1\0HOMING_SCAN={me}0\0")));
        assert!(!is_ours("A=1\0HOMING_SCAN=\0"));
        assert!(!super::is_ours(&Proc::at(root.path()), Pid(8)));
    }

    /// A process whose memory is a file: the library's data at the first page, the shared page at the third.
    fn look_at(mappings: &str, control: u64, page: &[(u64, u64)]) -> Preloaded {
        let root = tempfile::tempdir().unwrap();
        let (proc, pid) = (Proc::at(root.path()), Pid(7));
        std::fs::create_dir(root.path().join("7")).unwrap();
        std::fs::write(root.path().join("7/maps"), mappings).unwrap();
        std::fs::copy("/proc/self/status", root.path().join("7/status")).unwrap();
        let mut bytes = vec![0; 4 * PAGE as usize];
        let mut put = |at: u64, word: u64| bytes[at as usize..][..8].copy_from_slice(&word.to_ne_bytes());
        put(PAGE + 16, control);
        words().iter().for_each(|[at, word]| put(3 * PAGE + at, *word));
        page.iter().for_each(|(at, word)| put(3 * PAGE + at, *word));
        bytes[PAGE as usize..][..MARK.len()].copy_from_slice(MARK);
        let memory = root.path().join("mem");
        std::fs::write(&memory, bytes).unwrap();
        look(&proc, pid, &File::open(memory).unwrap()).unwrap()
    }

    #[test]
    fn a_process_that_executes_another_program_meanwhile_is_looked_at_again() {
        let library = "1000-2000 rw-p 00000000 00:01 5 /x/preload/libhoming-scan.so\n";
        let page = "3000-4000 rw-p 00000000 00:00 0 \n";
        let both = format!("{library}{page}");
        let (control, me) = (3 * PAGE, u64::from(std::process::id()));
        let own = [(at::HELPER, 9), (at::PROGRAM, me)];
        assert_eq!(look_at(&both, control, &own), Preloaded::Started { control, helper: Pid(9) });
        // The mappings are those of another program than the memory.
        assert_eq!(look_at(library, control, &own), Preloaded::Expected);
        assert_eq!(look_at(&both, 9 * PAGE, &own), Preloaded::Expected);
        assert_eq!(look_at(&both, NOT_YET, &own), Preloaded::Expected);
        // A forked child's page is its parent's, and a helper that ended will not come back.
        assert_eq!(look_at(&both, control, &[(at::HELPER, 9), (at::PROGRAM, me + 1)]), Preloaded::None);
        assert_eq!(look_at(&both, control, &[own[0], own[1], (at::ENDED, 1)]), Preloaded::None);
        assert_eq!(look_at(&both, NONE, &own), Preloaded::None);
    }
}
