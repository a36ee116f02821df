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

/// A job.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Further files and directories of the host that it needs.
    pub files: Vec<PathBuf>,
    /// Files of the guest and what is written to them before the command starts.
    pub tunes: Vec<(String, String)>,
    /// Further files and directories that are brought back if the command changes them.
    pub results: Vec<PathBuf>,
    /// Nodes on which the command's memory begins, as a list for the kernel; everywhere if there is none.
    pub start: Option<String>,
    /// Lines for a shell that runs beside the command and is not part of it: a daemon that works on it.
    pub beside: Vec<String>,
    /// Whether address spaces are marked for the observer.
    pub observe: bool,
    /// Whether the command has the guest's console.
    pub shell: bool,
}

/// A root file system with a job.
#[derive(Debug)]
pub struct Prepared {
    /// The archive.
    pub initramfs: OwnedFd,
    /// The ELF files in it.
    pub programs: Vec<PathBuf>,
    /// Libraries and interpreters that files in it name and the host lacks, too.
    pub missing: Vec<String>,
}

impl Job {
    /// Gathers the files and writes the job.
    pub fn prepare(&self, parts: &Parts) -> Result<Prepared, LabError> {
        let mut guest = Initramfs::new()?;
        guest.copy(&parts.built.join("init"), Path::new("/lab/init"))?;
        for module in &parts.modules {
            let name = module.file_name().unwrap_or_default();
            guest.copy(module, &Path::new("/lab/modules").join(name))?;
        }
        guest.directory(&self.directory)?;
        for file in ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"].map(Path::new) {
            if file.exists() {
                guest.copy(file, file)?;
            }
        }
        guest.file(Path::new("/lab/job"), 0o600, &self.text())?;
        let mut gatherer = Gatherer::new(&mut guest, &parts.busybox)?;
        gatherer.command(&self.command)?;
        self.beside.iter().try_for_each(|line| gatherer.line(line.as_ref()))?;
        self.files.iter().try_for_each(|file| gatherer.tree(file))?;
        let (programs, missing) = gatherer.finish(&parts.busybox)?;
        Ok(Prepared { initramfs: guest.finish()?, programs, missing })
    }

    /// The job as `init` reads it: pairs of NUL-ended strings.
    fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut put = |key: &str, value: &OsStr| {
            [key.as_bytes(), value.as_bytes()].iter().for_each(|word| {
                text.extend_from_slice(word);
                text.push(0);
            });
        };
        self.command.iter().for_each(|word| put("arg", word));
        for (name, value) in &self.environment {
            let mut both = name.clone();
            both.push("=");
            both.push(value);
            put("env", &both);
        }
        put("cwd", self.directory.as_os_str());
        self.tunes.iter().for_each(|(file, value)| put("tune", format!("{file}={value}").as_ref()));
        self.result_places().iter().for_each(|place| put("result", place.as_os_str()));
        self.start.iter().for_each(|nodes| put("start", nodes.as_ref()));
        self.beside.iter().for_each(|line| put("beside", line.as_ref()));
        if self.observe {
            put("observe", "1".as_ref());
        }
        if self.shell {
            put("shell", "1".as_ref());
        }
        text
    }

    /// The working directory (unless it is the root), the files that words name, and what was asked for.
    fn result_places(&self) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = self.results.iter().map(|place| absolute(place)).collect();
        if self.directory != Path::new("/") {
            places.push(self.directory.clone());
        }
        let separators = |byte: &u8| b" \t\n=,;:&|()<>'\"`$".contains(byte);
        let words = self.command.iter().skip(1).flat_map(|word| word.as_bytes().split(separators));
        for word in words.filter(|word| word.contains(&b'/')) {
            let path = absolute(Path::new(OsStr::from_bytes(word)));
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
    fn the_job_is_pairs_of_strings() {
        let place = tempfile::tempdir().unwrap();
        let job = Job {
            command: vec!["prog".into(), "-o".into(), place.path().join("out").into()],
            environment: vec![("A".into(), "b=c".into())],
            directory: "/".into(),
            tunes: vec![("/proc/x".into(), "1".into())],
            ..Job::default()
        };
        let text = String::from_utf8(job.text()).unwrap();
        assert!(text.starts_with("arg\0prog\0arg\0-o\0arg\0"));
        assert!(text.contains("env\0A=b=c\0cwd\0/\0tune\0/proc/x=1\0"));
        assert!(text.ends_with(&format!("result\0{}/out\0", place.path().display())));
        assert!(!text.contains("observe"));
    }
}
