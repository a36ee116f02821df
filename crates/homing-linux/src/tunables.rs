//! Kernel tunables that are changed for a while: written on [`Tunables::set`], put back on drop. What they were is also
//! kept in a state file, so that after a kill -9 the next run (or `homing doctor --restore`) can put them back. Nothing
//! else that the file may name is ever written.

use crate::fail::{self, Call};
use crate::hint_faults::Paths;
use crate::private::{Left, Private, PrivateLock, Restored};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The tunables that are changed besides the switch.
const NAMES: [&str; 4] = ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms", "scan_size_mb"];

/// All tunables that are ever changed, and put back after a kill.
fn known() -> Vec<PathBuf> {
    let Paths { switch, tunables } = Paths::default();
    std::iter::once(switch).chain(NAMES.map(|name| tunables.join(name))).collect()
}

/// Tunables that were changed.
#[derive(Debug)]
pub struct Tunables {
    state: State,
    /// Path and what it was, oldest change first.
    before: Vec<(PathBuf, String)>,
}

impl Tunables {
    /// Begins to change tunables, `state` being the file that remembers what they were. What an earlier, killed run
    /// left there is put back first.
    ///
    /// # Errors
    /// If another session has changed tunables and still runs; if its directory could be somebody else's
    /// ([`Private::open`]); if a tunable cannot be put back.
    pub fn begin(state: &Path) -> io::Result<Tunables> {
        Tunables::begin_among(state, &known())
    }

    fn begin_among(state: &Path, known: &[PathBuf]) -> io::Result<Tunables> {
        let (folder, name) = split(state)?;
        let state = State::lock(Private::open(folder)?, name)?;
        for trouble in state.put_back(known)?.troubles {
            crate::errln!("homing: {trouble}");
        }
        Ok(Tunables { state, before: Vec::new() })
    }

    /// Writes `value`. Writing what is there already changes nothing and need not be permitted.
    ///
    /// # Errors
    /// If the file is missing or may not be written.
    pub fn set(&mut self, path: &Path, value: &str) -> io::Result<()> {
        let old = fs::read_to_string(path)?.trim().to_owned();
        if old == value {
            return Ok(());
        }
        fail::point(Call::Tunable)?;
        let first = self.before.iter().all(|(known, _)| known != path);
        if first {
            self.before.push((path.to_owned(), old));
            self.state.remember(&self.before)?;
        }
        let written = write(path, value);
        if first && written.is_err() {
            // It is as it was, and whoever may not write it could not put it back.
            self.before.pop();
            match &self.before[..] {
                [] => self.state.forget()?,
                before => self.state.remember(before)?,
            }
        }
        written
    }
}

impl Drop for Tunables {
    fn drop(&mut self) {
        if self.before.is_empty() {
            return;
        }
        if let Err(error) = write_all(&self.before).and_then(|()| self.state.forget()) {
            let state = self.state.path();
            crate::errln!("homing: kernel tunables could not be put back ({error}); see {}", state.display());
        }
    }
}

/// Puts back what a killed session left changed: what the state file says, newest change first; then removes the file.
/// Returns how many tunables it named. Of a file that could be somebody else's, or that names what is no tunable of
/// ours, nothing is put back: it is moved aside.
///
/// # Errors
/// If a session still runs and needs them as they are; if a tunable cannot be written, and then the file stays.
pub fn restore(state: &Path) -> io::Result<Restored> {
    restore_among(state, &known())
}

fn restore_among(state: &Path, known: &[PathBuf]) -> io::Result<Restored> {
    let (folder, name) = split(state)?;
    let Some(private) = Private::there(folder)?.filter(|_| state.symlink_metadata().is_ok()) else {
        return Ok(Restored::default());
    };
    State::lock(private, name)?.put_back(known)
}

/// The directory and the name of a state file.
fn split(state: &Path) -> io::Result<(&Path, &str)> {
    let name = state.file_name().and_then(|name| name.to_str());
    state.parent().zip(name).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The state file. The lock is held as long as this lives: two sessions would take each other's values for the original
/// ones.
#[derive(Debug)]
struct State {
    lock: PrivateLock,
    name: String,
}

impl State {
    fn lock(private: Private, name: &str) -> io::Result<State> {
        let path = private.path(name).with_extension("lock");
        let lock = split(&path)?.1.to_owned();
        let lock = private.lock(&lock, |holder| {
            format!(
                "another session of homing ({holder}) uses the kernel's tunables, and only one can at a time (it holds \
                {}): \
                 wait for its end, or use one session for all processes",
                path.display()
            )
        })?;
        Ok(State { lock, name: name.to_owned() })
    }

    fn path(&self) -> PathBuf {
        self.lock.directory().path(&self.name)
    }

    fn remember(&self, before: &[(PathBuf, String)]) -> io::Result<()> {
        let line = |(path, value): &(PathBuf, String)| format!("{}={value}\n", path.display());
        self.lock.directory().write(&self.name, &before.iter().map(line).collect::<String>())
    }

    fn forget(&self) -> io::Result<()> {
        self.lock.directory().remove(&self.name)
    }

    fn put_back(&self, known: &[PathBuf]) -> io::Result<Restored> {
        let parse =
            |text: &str| text.lines().map(|line| parse(line, known).ok_or(strange(line, known))).collect();
        let lines: Vec<_> = match self.lock.directory().left(&self.name, parse)? {
            Left::Nothing => return Ok(Restored::default()),
            Left::Whole(lines) => lines,
            Left::Aside(why) => return Ok(Restored { count: 0, troubles: vec![why] }),
        };
        write_all(&lines)?;
        self.forget()?;
        Ok(Restored { count: lines.len() as u64, troubles: Vec::new() })
    }
}

/// What to say of a line that no session has written.
fn strange(line: &str, known: &[PathBuf]) -> String {
    let names: Vec<_> = known.iter().map(|path| path.display().to_string()).collect();
    format!(
        "`{}`: expected PATH=NUMBER with one of {}. Nothing of it was put back: put these tunables back by hand where \
         needed",
        crate::visible::name(&line.chars().take(200).collect::<String>()),
        names.join(", ")
    )
}

/// A line of the state file: a tunable of ours and a number.
fn parse(line: &str, known: &[PathBuf]) -> Option<(PathBuf, String)> {
    let (path, value) = line.split_once('=')?;
    let path = known.iter().find(|known| known.as_os_str() == path)?;
    let number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| (path.clone(), value.to_owned()))
}

/// Writes all values, newest change first, as far as that is possible.
fn write_all(values: &[(PathBuf, String)]) -> io::Result<()> {
    let mut all = Ok(());
    for (path, value) in values.iter().rev() {
        all = all.and(write(path, value));
    }
    all
}

/// Writes a tunable, which must be there.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint_faults::Window;
    use std::os::unix::fs::PermissionsExt;

    /// Two tunables, and the state file beside them.
    struct Place {
        _directory: tempfile::TempDir,
        a: PathBuf,
        b: PathBuf,
        state: PathBuf,
    }

    impl Place {
        fn new() -> Place {
            let directory = tempfile::tempdir().unwrap();
            let file = |name: &str| directory.path().join(name);
            let (a, b, state) = (file("a"), file("b"), file("state"));
            fs::write(&a, "0\n").unwrap();
            fs::write(&b, "1000\n").unwrap();
            Place { _directory: directory, a, b, state }
        }

        fn known(&self) -> Vec<PathBuf> {
            vec![self.a.clone(), self.b.clone()]
        }

        fn begin(&self) -> io::Result<Tunables> {
            Tunables::begin_among(&self.state, &self.known())
        }

        fn restore(&self) -> io::Result<u64> {
            restore_among(&self.state, &self.known()).map(|restored| {
                assert_eq!(restored.troubles, [] as [String; 0]);
                restored.count
            })
        }

        /// The only file that was moved aside, which is removed.
        fn aside(&self) -> String {
            let path = self.state.with_extension("broken-1");
            let text = fs::read_to_string(&path).unwrap();
            fs::remove_file(&path).unwrap();
            assert!(!self.state.exists());
            text
        }

        fn now(&self) -> (String, String) {
            (fs::read_to_string(&self.a).unwrap(), fs::read_to_string(&self.b).unwrap())
        }
    }

    #[test]
    fn tunables_come_back_also_after_a_kill() {
        let place = Place::new();
        let mut tunables = place.begin().unwrap();
        tunables.set(&place.a, "1").unwrap();
        tunables.set(&place.b, "7").unwrap();
        tunables.set(&place.b, "8").unwrap();
        assert_eq!(place.now(), ("1".into(), "8".into()));
        drop(tunables);
        assert_eq!(place.now(), ("0".into(), "1000".into()));
        assert!(!place.state.exists());

        let mut killed = place.begin().unwrap();
        killed.set(&place.a, "1").unwrap();
        assert!(place.begin().unwrap_err().to_string().contains("another session"));
        let refused = place.restore().unwrap_err().to_string();
        assert!(refused.contains("another session"), "it needs them as they are: {refused}");
        let left = fs::read_to_string(&place.state).unwrap();
        drop(killed);
        assert_eq!(place.restore().unwrap(), 0);
        fs::write(&place.state, &left).unwrap();
        fs::write(&place.a, "1").unwrap();
        assert_eq!(place.restore().unwrap(), 1);
        assert_eq!(place.now().0, "0");
        fs::write(&place.state, left).unwrap();
        fs::write(&place.a, "1").unwrap();
        let next = place.begin().unwrap();
        assert_eq!(place.now().0, "0");
        drop(next);
        assert!(place.begin().unwrap().set(&place.state.with_file_name("absent"), "1").is_err());
    }

    #[test]
    fn a_tunable_that_may_not_be_written_leaves_no_state() {
        // The kernel refuses writes to this, to root as well.
        let refused = Path::new("/proc/self/stat");
        let place = Place::new();
        let mut tunables = place.begin().unwrap();
        assert!(tunables.set(refused, "1").is_err() && !place.state.exists());
        tunables.set(&place.a, "1").unwrap();
        assert!(tunables.set(refused, "1").is_err());
        assert!(!fs::read_to_string(&place.state).unwrap().contains("/proc"));
        drop(tunables);
        assert_eq!((place.now().0, place.state.exists()), ("0".into(), false));
    }

    #[test]
    fn nothing_but_known_tunables_is_ever_written_back() {
        let place = Place::new();
        let secret = place.state.with_file_name("shadow");
        fs::write(&secret, "root").unwrap();
        let good = format!("{}=1", place.a.display());
        let beside = place.a.with_file_name("x").join("../a");
        for bad in [
            format!("{}=1", secret.display()),
            format!("{}=1", beside.display()),
            format!("{}=all", place.b.display()),
            format!("{}=", place.b.display()),
            "no line of ours".to_owned(),
        ] {
            let text = format!("{good}\n{bad}\n");
            fs::write(&place.state, &text).unwrap();
            let restored = restore_among(&place.state, &place.known()).unwrap();
            let [trouble] = &restored.troubles[..] else { panic!("{restored:?}") };
            assert!(trouble.contains(&bad) && trouble.contains("state.broken-1"), "{trouble}");
            assert_eq!((restored.count, place.aside()), (0, text.clone()));
            fs::write(&place.state, &text).unwrap();
            drop(place.begin().expect("it is in nobody's way"));
            assert_eq!(place.aside(), text);
            assert_eq!(place.now(), ("0\n".into(), "1000\n".into()), "{bad}: nothing is written");
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "root");
        fs::write(&place.state, &good).unwrap();
        assert_eq!(restore(&place.state).unwrap().troubles.len(), 1, "a path that the engine never changes");
        fs::write(&place.state, place.aside()).unwrap();
        assert_eq!(place.restore().unwrap(), 1);
    }

    #[test]
    fn a_state_file_that_others_could_have_written_is_refused() {
        let place = Place::new();
        fs::write(&place.state, format!("{}=1", place.a.display())).unwrap();
        let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        allow(&place.state, 0o666);
        let restored = restore_among(&place.state, &place.known()).unwrap();
        assert_eq!((restored.count, restored.troubles.len(), place.now().0.as_str()), (0, 1, "0\n"));
        fs::write(&place.state, place.aside()).unwrap();
        allow(&place.state, 0o600);
        let folder = place.state.parent().unwrap();
        allow(folder, 0o777);
        assert!(place.restore().is_err() && place.begin().is_err());
        assert_eq!(place.now().0, "0\n");
        allow(folder, 0o700);
        assert_eq!(place.restore().unwrap(), 1);
    }

    #[test]
    fn all_that_can_be_is_put_back_and_the_file_stays_for_the_rest() {
        let place = Place::new();
        let state = format!("{}=1\n{}=7\n", place.a.display(), place.b.display());
        fs::write(&place.state, &state).unwrap();
        fs::remove_file(&place.b).unwrap();
        assert!(place.restore().is_err());
        assert_eq!(fs::read_to_string(&place.a).unwrap(), "1");
        assert!(!place.b.exists(), "a tunable is not made");
        assert_eq!(fs::read_to_string(&place.state).unwrap(), state);
    }

    #[test]
    fn whatever_hint_faults_change_is_known() {
        let place = Place::new();
        let folder = place.state.with_file_name("debug");
        let paths = Paths { switch: place.state.with_file_name("numa_balancing"), tunables: folder.clone() };
        fs::create_dir(&folder).unwrap();
        fs::write(&paths.switch, "9").unwrap();
        NAMES.iter().for_each(|name| fs::write(folder.join(name), "9").unwrap());
        let mut window = Window::new(&paths, &place.state).unwrap();
        window.open(false).unwrap();
        let text = fs::read_to_string(&place.state).unwrap();
        let names = |paths: Vec<PathBuf>| -> std::collections::BTreeSet<_> {
            paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect()
        };
        let changed = text.lines().map(|line| PathBuf::from(line.split_once('=').unwrap().0)).collect();
        assert_eq!(names(changed), names(known()));
    }

    #[test]
    fn a_session_waits_for_what_a_killed_one_had_begun() {
        let place = Place::new();
        let guard = place.begin().unwrap();
        // Nobody has the number, as after a kill.
        fs::write(place.state.with_extension("lock"), format!("{} 1\n", i32::MAX)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| place.begin());
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(guard);
            let begun = waiting.join().unwrap();
            assert!(begun.is_ok(), "{begun:?}");
        });
    }

    #[test]
    fn writing_what_is_there_needs_no_right() {
        let place = Place::new();
        let mut tunables = place.begin().unwrap();
        tunables.set(&place.a, "0").unwrap();
        assert!(!place.state.exists());
    }
}
