//! What the guest shall do, and the root file system that makes it do that (`lab/guest/init.c` reads the job).

use crate::gather::{absolute, Gatherer};
use crate::initramfs::Initramfs;
use crate::parts::Parts;
use crate::LabError;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the guest's programs are looked for.
const GUEST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A job: a command and what it needs, alone in the machine while it runs.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Further files and directories of the host that it needs.
    pub files: Vec<PathBuf>,
    /// Further files and directories that are brought back if the command changes them.
    pub results: Vec<PathBuf>,
    /// Nodes on which the command's memory begins, as a list for the kernel; everywhere if there is none.
    pub start: Option<String>,
    /// Lines for a shell that runs beside the command and is not part of it: a daemon that works on it.
    pub beside: Vec<String>,
    /// Whether the observer counts the command's accesses.
    pub observe: bool,
    /// Whether the command reads the host's input.
    pub input: bool,
    /// Whether the command has the guest's console.
    pub shell: bool,
}

/// What the guest is set to, and its jobs.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The jobs, in order.
    pub jobs: Vec<&'a Job>,
    /// Files of the guest and what is written to them before the first job.
    pub tunes: Vec<(String, String)>,
    /// Whether an observer is there, for which address spaces are marked.
    pub observed: bool,
}

/// A root file system with jobs.
#[derive(Debug)]
pub struct Prepared {
    /// The archive.
    pub initramfs: OwnedFd,
    /// The ELF files in it.
    pub programs: Vec<PathBuf>,
    /// Libraries and interpreters that files in it name and the host lacks, too.
    pub missing: Vec<String>,
}

impl Plan<'_> {
    /// Gathers the files and writes the jobs.
    pub fn prepare(&self, parts: &Parts) -> Result<Prepared, LabError> {
        let mut guest = Initramfs::new()?;
        guest.copy(&parts.built.join("init"), Path::new("/lab/init"))?;
        for module in &parts.modules {
            let name = module.file_name().unwrap_or_default();
            guest.copy(module, &Path::new("/lab/modules").join(name))?;
        }
        for job in &self.jobs {
            guest.directory(&job.directory)?;
        }
        for file in ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"].map(Path::new) {
            if file.exists() {
                guest.copy(file, file)?;
            }
        }
        guest.file(Path::new("/lab/jobs"), 0o600, &self.text())?;
        let mut gatherer = Gatherer::new(&mut guest, &parts.busybox)?;
        for job in &self.jobs {
            gatherer.enter(&job.directory);
            gatherer.command(&job.command)?;
            job.beside.iter().try_for_each(|line| gatherer.line(line.as_ref()))?;
            job.files.iter().try_for_each(|file| gatherer.tree(file))?;
        }
        let (programs, missing) = gatherer.finish(&parts.busybox)?;
        Ok(Prepared { initramfs: guest.finish()?, programs, missing })
    }

    /// The jobs as `init` reads them: pairs of NUL-ended strings.
    fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let tunes = self.tunes.iter().map(|(file, value)| format!("{file}={value}"));
        tunes.for_each(|tune| put(&mut text, "tune", tune.as_ref()));
        if self.observed {
            put(&mut text, "marks", "1".as_ref());
        }
        self.jobs.iter().for_each(|job| job.put(&mut text));
        text
    }
}

fn put(text: &mut Vec<u8>, key: &str, value: &OsStr) {
    for word in [key.as_bytes(), value.as_bytes()] {
        text.extend_from_slice(word);
        text.push(0);
    }
}

impl Job {
    fn put(&self, text: &mut Vec<u8>) {
        put(text, "job", self.name.as_ref());
        self.command.iter().for_each(|word| put(text, "arg", word));
        for (name, value) in &self.environment {
            let mut both = name.clone();
            both.push("=");
            both.push(value);
            put(text, "env", &both);
        }
        put(text, "cwd", self.directory.as_os_str());
        self.result_places().iter().for_each(|place| put(text, "result", place.as_os_str()));
        self.start.iter().for_each(|nodes| put(text, "start", nodes.as_ref()));
        self.beside.iter().for_each(|line| put(text, "beside", line.as_ref()));
        for (key, set) in [("observe", self.observe), ("shell", self.shell), ("stdin", self.input)] {
            if set {
                put(text, key, "1".as_ref());
            }
        }
    }

    /// The working directory (unless it is the root), the files that words name, and what was asked for.
    fn result_places(&self) -> Vec<PathBuf> {
        let from = |path: &Path| absolute(&self.directory.join(path));
        let mut places: Vec<PathBuf> = self.results.iter().map(|place| from(place)).collect();
        if self.directory != Path::new("/") {
            places.push(self.directory.clone());
        }
        let separators = |byte: &u8| b" \t\n=,;:&|()<>'\"`$".contains(byte);
        let words = self.command.iter().skip(1).flat_map(|word| word.as_bytes().split(separators));
        for word in words.filter(|word| word.contains(&b'/')) {
            let path = from(Path::new(OsStr::from_bytes(word)));
            let has_a_place = path.parent().is_some_and(Path::is_dir) && !path.is_dir();
            if has_a_place && !places.iter().any(|place| path.starts_with(place)) {
                places.push(path);
            }
        }
        places
    }
}

/// The environment of this program, for a command in the guest: all of it, with the guest's own places added to PATH.
pub fn environment() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<_> = std::env::vars_os().filter(|(name, _)| name != "PATH").collect();
    let joined = if path.is_empty() {
        OsString::from(GUEST_PATH)
    } else {
        let mut joined = path;
        joined.push(":");
        joined.push(GUEST_PATH);
        joined
    };
    all.push(("PATH".into(), joined));
    all
}

/// The same with variables that are set for the command.
pub fn environment_with<'a>(set: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(OsString, OsString)> {
    let mut all = environment();
    for (name, value) in set {
        all.retain(|(known, _)| known != name);
        all.push((name.into(), value.into()));
    }
    all
}

/// The working directory of this program, for a command in the guest.
///
/// # Errors
/// If it is one that the guest has of its own.
pub fn working_directory() -> Result<PathBuf, LabError> {
    let directory = std::env::current_dir().map_err(LabError::io("cannot tell the working directory"))?;
    let own = ["/proc", "/sys", "/dev"].iter().any(|place| directory.starts_with(place));
    if own {
        let name = directory.display();
        return Err(LabError::Usage(format!("the guest has a {name} of its own: run this elsewhere")));
    }
    Ok(directory)
}

/// Fails if one of `--file` is not there, before anything is started.
pub fn check_files(files: &[PathBuf]) -> Result<(), LabError> {
    match files.iter().find(|file| !file.exists()) {
        Some(file) => Err(LabError::Failed(format!("--file {}: no such file or directory", file.display()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_are_pairs_of_strings() {
        let place = tempfile::tempdir().unwrap();
        let job = Job {
            name: "a".into(),
            command: vec!["prog".into(), "-o".into(), place.path().join("out").into()],
            environment: vec![("A".into(), "b=c".into())],
            directory: "/".into(),
            ..Job::default()
        };
        let other = Job {
            name: "b".into(),
            directory: place.path().into(),
            results: vec!["../r".into()],
            ..job.clone()
        };
        let plan =
            Plan { jobs: vec![&job, &other], tunes: vec![("/proc/x".into(), "1".into())], observed: false };
        let text = String::from_utf8(plan.text()).unwrap();
        let place = place.path().display();
        assert!(text.starts_with("tune\0/proc/x=1\0job\0a\0arg\0prog\0arg\0-o\0arg\0"));
        assert!(text.contains(&format!("env\0A=b=c\0cwd\0/\0result\0{place}/out\0job\0b\0arg\0")));
        assert!(
            text.ends_with(&format!("result\0/tmp/r\0result\0{place}\0"))
                || !place.to_string().starts_with("/tmp/")
        );
        assert!(!text.contains("observe") && !text.contains("marks"));
    }
}
