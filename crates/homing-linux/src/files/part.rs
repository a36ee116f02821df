//! A file that has a name of its own while it is unfinished: `NAME.part`. A kill leaves it for `homing trace
//! recover`, and no later run writes over it: that one's is called `NAME.part2`.

use super::error::While;
use super::output::under_a_new_name;
use super::target::Target;
use super::{begins_with, FileError, Over};
use crate::lock::Lock;
use rustix::fs::{linkat, openat, AtFlags, Dir, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unfinished files of one name.
const MOST: u32 = 1000;
/// How long to wait for others that are beginning or looking in the same directory, which takes them no time.
const TURN: (u32, Duration) = (400, Duration::from_millis(5));

/// An unfinished file. Dropped, it stays, unless nothing is in it.
#[derive(Debug)]
pub struct Part {
    wanted: PathBuf,
    /// What has a name yet to be given.
    unfinished: Option<Unfinished>,
    over: Over,
}

#[derive(Debug)]
struct Unfinished {
    at: Target,
    /// `wanted`, behind links.
    target: Target,
    /// Tells others that this run is alive; where the file system has no locks, nobody sees to that.
    _lock: Option<Lock>,
}

impl Part {
    /// Begins a file that is to take the place of `wanted`, which nobody else may be writing. A pipe or a device is
    /// written directly.
    ///
    /// # Errors
    /// If `wanted` is what must not be replaced, or another run is writing it.
    pub fn create(wanted: &Path, over: Over) -> Result<(Part, File), FileError> {
        let target = Target::of(wanted)?;
        over.check_target(&target)?;
        let context = || format!("cannot write {}", wanted.display());
        if target.is_written_through() {
            let file = target.open_through().doing(context)?;
            return Ok((Part { wanted: wanted.to_owned(), unfinished: None, over }, file));
        }
        let _turn = turn(&target);
        if let Some(alive) = siblings(&target).into_iter().find(is_alive) {
            let unfinished = alive.path().to_owned();
            return Err(FileError::InUse { wanted: wanted.to_owned(), unfinished });
        }
        let (at, file) = new(&target).doing(context)?;
        target.keep_access(&file);
        let lock = Lock::take(file.try_clone().doing(context)?).ok().flatten();
        let unfinished = Some(Unfinished { at, target, _lock: lock });
        Ok((Part { wanted: wanted.to_owned(), unfinished, over }, file))
    }

    /// The file as it is called while it is unfinished.
    pub fn path(&self) -> &Path {
        self.unfinished.as_ref().map_or(&self.wanted, |unfinished| unfinished.at.path())
    }

    /// Whether something is in the unfinished file.
    pub fn holds_something(&self) -> bool {
        self.unfinished.as_ref().is_some_and(|unfinished| begins_with(&unfinished.at, 1).is_some())
    }

    /// Gives the complete file its name.
    pub fn complete(mut self) -> Result<PathBuf, FileError> {
        let Some(Unfinished { at, target, .. }) = &self.unfinished else { return Ok(self.wanted.clone()) };
        let (path, wanted) = (at.path().display(), self.wanted.display());
        let context = || format!("{path} is complete, but cannot be renamed to {wanted}");
        // Somebody may have given the name to something else meanwhile.
        self.over.check_target(target).doing(context)?;
        at.rename(target).doing(context)?;
        self.unfinished = None;
        Ok(self.wanted.clone())
    }

    /// Gives the file its name beside the unfinished one's, for who reads it while it is written. Until it is
    /// complete it has both, so that a later run does not write over it.
    pub fn publish(&self) -> Result<(), FileError> {
        let Some(Unfinished { at, target, .. }) = &self.unfinished else { return Ok(()) };
        let context = || format!("cannot write {}", self.wanted.display());
        self.over.check_target(target)?;
        let second_name = |name: &Target| {
            Ok(linkat(at.directory(), at.name(), name.directory(), name.name(), AtFlags::empty())?)
        };
        match under_a_new_name(target, second_name) {
            Ok((name, ())) => name.rename(target),
            // The file system has no second names: it has the one that is asked for.
            Err(_) => at.rename(target),
        }
        .doing(context)
    }

    /// Gives up the unfinished name.
    pub fn discard(mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            // Nothing of worth is lost if it stays.
            let _ = unfinished.at.remove();
        }
    }

    /// What killed runs left of this file.
    pub fn left_behind(wanted: &Path) -> Vec<PathBuf> {
        let Ok(target) = Target::of(wanted) else { return Vec::new() };
        let _turn = turn(&target);
        let mut left = siblings(&target);
        left.retain(|at| begins_with(at, 1).is_some() && !is_alive(at));
        left.iter().map(|at| at.path().to_owned()).collect()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let is_empty = |unfinished: &Unfinished| unfinished.at.size() == Some(0);
        if let Some(unfinished) = self.unfinished.take().filter(is_empty) {
            let _ = unfinished.at.remove();
        }
    }
}

/// The directory, to be read.
fn directory(target: &Target) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(target.directory(), ".", flags, Mode::empty())?)
}

/// The lock of the directory, while unfinished files in it are looked at or begun: of two that begin at the same
/// time, one comes first. Nothing where it cannot be had.
fn turn(target: &Target) -> Option<Lock> {
    let (tries, pause) = TURN;
    let directory = File::from(directory(target).ok()?);
    for _ in 0..tries {
        match Lock::take(directory.try_clone().ok()?) {
            Ok(None) => std::thread::sleep(pause),
            taken => return taken.ok().flatten(),
        }
    }
    None
}

fn numbered(target: &Target, number: u32) -> Target {
    target.beside("", &if number == 1 { ".part".to_owned() } else { format!(".part{number}") })
}

/// Makes an unfinished file under the first name that nothing has, be it a link.
fn new(target: &Target) -> Result<(Target, File), FileError> {
    for number in 1..=MOST {
        let at = numbered(target, number);
        match at.create_new() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => {
                let file = file.doing(|| format!("cannot create {}", at.path().display()))?;
                return Ok((at, file));
            }
        }
    }
    Err(FileError::TooMany(MOST))
}

/// The files beside `target` that have the name of an unfinished one, in order.
fn siblings(target: &Target) -> Vec<Target> {
    let number = |name: &OsStr| {
        let number = match name.to_str()?.rsplit_once(".part")?.1 {
            "" => 1,
            digits => digits.parse().ok()?,
        };
        (numbered(target, number).name() == name).then_some(number)
    };
    let entries = directory(target).and_then(|directory| Ok(Dir::read_from(directory)?));
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name().to_owned());
    let mut numbers: Vec<u32> = names.filter_map(|name| number(OsStr::from_bytes(name.to_bytes()))).collect();
    numbers.sort_unstable();
    let is_file = |at: &Target| at.size().is_some();
    numbers.into_iter().map(|number| numbered(target, number)).filter(is_file).collect()
}

/// Whether a run is writing the file.
fn is_alive(at: &Target) -> bool {
    let open = at.open(OFlags::RDWR | OFlags::NONBLOCK);
    open.is_ok_and(|file| matches!(Lock::take(file), Ok(None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{symlink, PermissionsExt};

    fn names(directory: &Path) -> Vec<String> {
        let entries = directory.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_traces_are_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("x.trace");
        for (content, allowed) in [(&b"HOMINGTR..."[..], true), (b"", true), (b"precious", false)] {
            std::fs::write(&name, content).unwrap();
            assert_eq!(Part::create(&name, Over::Traces).is_ok(), allowed);
        }
        assert!(Part::create(&directory.path().join("absent/x"), Over::Traces).is_err());
        std::fs::write(&name, b"HOMINGTR...").unwrap();
        let (part, mut file) = Part::create(&name, Over::Traces).unwrap();
        file.write_all(b"HOMINGTR and all references").unwrap();
        std::fs::write(&name, b"precious").unwrap();
        let error = part.complete().unwrap_err();
        let error = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        assert!(
            error.contains("x.trace.part is complete") && error.contains("only a trace may be replaced"),
            "{error}"
        );
        assert_eq!(std::fs::read(&name).unwrap(), b"precious");
        assert!(directory.path().join("x.trace.part").exists());
    }

    #[test]
    fn the_name_appears_when_the_file_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("x.trace");
        let (part, mut file) = Part::create(&name, Over::Traces).unwrap();
        assert!(!part.holds_something());
        file.write_all(b"HOMINGTR").unwrap();
        assert!(!name.exists() && part.path().exists() && part.holds_something());
        assert_eq!(part.complete().unwrap(), name);
        assert_eq!(std::fs::read(&name).unwrap(), b"HOMINGTR");
        assert_eq!(names(directory.path()), ["x.trace"]);
        drop(Part::create(&name, Over::Traces).unwrap());
        assert_eq!(names(directory.path()), ["x.trace"], "nothing was written");
    }

    #[test]
    fn what_a_killed_run_or_the_user_has_there_is_left_alone_and_the_former_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let wanted = path("x.trace");
        std::fs::write(path("x.trace.part"), "HOMINGTR of a killed run").unwrap();
        std::fs::write(path("precious"), "a thesis").unwrap();
        symlink("precious", path("x.trace.part2")).unwrap();
        std::fs::write(path("y.trace.part"), "another file's").unwrap();
        std::fs::write(path("x.trace.party"), "no unfinished file's name").unwrap();
        let (part, mut file) = Part::create(&wanted, Over::Traces).unwrap();
        assert_eq!(part.path(), path("x.trace.part3"));
        file.write_all(b"HOMINGTR").unwrap();
        assert_eq!(Part::left_behind(&wanted), [path("x.trace.part")]);
        part.complete().unwrap();
        assert_eq!(std::fs::read(path("x.trace.part")).unwrap(), b"HOMINGTR of a killed run");
        assert_eq!(std::fs::read(path("precious")).unwrap(), b"a thesis");
        assert!(path("x.trace.part2").is_symlink() && !path("x.trace.part3").exists());
        assert!(Part::left_behind(Path::new("/")).is_empty());
    }

    #[test]
    fn of_two_runs_that_write_one_file_the_second_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        symlink("x.trace", path("link")).unwrap();
        // Its number is higher than the one that would be free.
        std::fs::write(path("x.trace.part"), "").unwrap();
        let (first, _file) = Part::create(&path("x.trace"), Over::Traces).unwrap();
        std::fs::remove_file(path("x.trace.part")).unwrap();
        for name in ["x.trace", "link"] {
            let error = Part::create(&path(name), Over::Traces).unwrap_err().to_string();
            assert!(error.contains("another run is writing") && error.contains("x.trace.part2"), "{error}");
        }
        assert!(Part::create(&path("other.trace"), Over::Traces).is_ok());
        drop(first);
        assert!(Part::create(&path("x.trace"), Over::Traces).is_ok());
    }

    #[test]
    fn of_many_that_begin_at_once_one_is_first() {
        let directory = tempfile::tempdir().unwrap();
        let wanted = directory.path().join("x.trace");
        let all = std::sync::Barrier::new(8);
        let begun: Vec<_> = std::thread::scope(|scope| {
            let begin = || scope.spawn(|| (all.wait(), Part::create(&wanted, Over::Traces)).1);
            let threads: Vec<_> = (0..8).map(|_| begin()).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(begun.iter().filter(|part| part.is_ok()).count(), 1);
    }

    #[test]
    fn a_published_file_has_its_name_and_outlives_a_kill_under_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("log"), crate::files::JOURNAL).unwrap();
        std::fs::set_permissions(path("log"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let (part, mut file) = Part::create(&path("log"), Over::Journals).unwrap();
        file.write_all(b"{\"homing_journal\":1}").unwrap();
        part.publish().unwrap();
        assert_eq!(std::fs::read(path("log")).unwrap(), b"{\"homing_journal\":1}");
        assert_eq!(path("log").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // As a kill leaves it.
        drop((part, file));
        let (part, mut file) = Part::create(&path("log"), Over::Journals).unwrap();
        file.write_all(b"second").unwrap();
        part.publish().unwrap();
        part.discard();
        assert_eq!(std::fs::read(path("log")).unwrap(), b"second");
        assert_eq!(std::fs::read(path("log.part")).unwrap(), b"{\"homing_journal\":1}");
        assert_eq!(names(directory.path()), ["log", "log.part"]);
    }
}
