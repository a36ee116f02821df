//! Output files that appear whole or not at all.

use super::error::While;
use super::place::{behind_links, beside, folder, is_written_through};
use super::{FileError, Over};
use crate::unnamed;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{fchown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names that are tried for an unfinished file.
const TRIES: u32 = 1000;

/// An output file that gets its name by [`Output::commit`], in the place of what had it: with its access rights, and
/// where the name is a link, in the place of what it leads to. Ended before that, in whatever way, it leaves nothing
/// behind. What exists and is no regular file (a pipe, a device) is written directly.
pub struct Output {
    path: PathBuf,
    /// Behind links.
    target: PathBuf,
    over: Over,
    stage: Stage,
    file: File,
}

/// Where an output file is.
enum Stage {
    /// It is written directly.
    Final,
    /// It has no name yet.
    Unnamed,
    /// It is under this name.
    Temporary(PathBuf),
}

impl Output {
    /// Begins an output file in the place of anything but a trace.
    pub fn create(path: &Path) -> Result<Output, FileError> {
        Output::begin(path, Over::OtherFiles)
    }

    /// Begins a trace in the place of nothing but a trace.
    pub fn trace(path: &Path) -> Result<Output, FileError> {
        Output::begin(path, Over::Traces)
    }

    /// Begins an output file in the place of whatever has the name.
    pub fn replace(path: &Path) -> Result<Output, FileError> {
        Output::begin(path, Over::Anything)
    }

    fn begin(path: &Path, over: Over) -> Result<Output, FileError> {
        over.check(path)?;
        let context = || format!("cannot write {}", path.display());
        let made = |target, stage, file| Ok(Output { path: path.to_owned(), target, over, stage, file });
        if is_written_through(path) {
            return made(path.to_owned(), Stage::Final, write_through(path).doing(context)?);
        }
        let target = behind_links(path);
        beside(&target, "", "")?;
        let (stage, file) = match unnamed::create(&folder(&target)) {
            Ok(file) => (Stage::Unnamed, file),
            Err(_) => {
                let new = |name: &Path| OpenOptions::new().write(true).create_new(true).open(name);
                let (name, file) = under_a_new_name(&target, new).doing(context)?;
                (Stage::Temporary(name), file)
            }
        };
        keep_access(&file, &target);
        made(target, stage, file)
    }

    /// Gives the finished file its name.
    pub fn commit(mut self) -> Result<(), FileError> {
        if let Stage::Final = self.stage {
            return Ok(());
        }
        // Somebody may have given the name to something else meanwhile.
        self.over.check(&self.path)?;
        let path = self.path.clone();
        let context = || format!("cannot give the finished file its name {}", path.display());
        if let Stage::Unnamed = self.stage {
            // A name can be replaced by renaming only.
            let name = |name: &Path| unnamed::name(&self.file, name);
            let (name, ()) = under_a_new_name(&self.target, name).doing(context)?;
            self.stage = Stage::Temporary(name);
        }
        if let Stage::Temporary(temporary) = &self.stage {
            std::fs::rename(temporary, &self.target).doing(context)?;
            self.stage = Stage::Final;
        }
        Ok(())
    }
}

/// Opens what is no regular file, or a descriptor of ours, whose file may hold more than what we write: standard
/// output and error go on where they are.
pub fn write_through(path: &Path) -> io::Result<File> {
    for ours in [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()] {
        let ours = File::from(ours?);
        let (left, right) = (ours.metadata()?, path.metadata()?);
        if left.is_file() && (left.dev(), left.ino()) == (right.dev(), right.ino()) {
            return Ok(ours);
        }
    }
    OpenOptions::new().write(true).append(path.is_file()).open(path)
}

/// Gives a new file the access rights of the one in whose place it will be.
pub fn keep_access(file: &File, target: &Path) {
    let Ok(before) = target.metadata() else { return };
    // Only root may give files away, and some file systems know no owners and rights: then there is nothing to keep.
    if fchown(file, Some(before.uid()), Some(before.gid())).is_err() {
        let _ = fchown(file, None, Some(before.gid()));
    }
    let same_group = file.metadata().is_ok_and(|now| now.gid() == before.gid());
    let kept = if same_group { 0o777 } else { 0o707 };
    let _ = file.set_permissions(Permissions::from_mode(before.mode() & kept));
}

/// Makes something under a name beside `target` that nothing else has.
pub fn under_a_new_name<T>(
    target: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T), FileError> {
    let process = std::process::id();
    for number in 1..=TRIES {
        let after =
            if number == 1 { format!(".{process}.part") } else { format!(".{process}-{number}.part") };
        let name = beside(target, ".", &after)?;
        match make(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                let made = made.doing(|| format!("cannot create {}", name.display()))?;
                return Ok((name, made));
            }
        }
    }
    Err(FileError::TooMany(TRIES))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Stage::Temporary(temporary) = &self.stage {
            // Nothing more can be done about a file that cannot be removed; the error that led here is reported.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn traces_and_other_files_do_not_overwrite_each_other() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("it");
        for (contents, as_trace, as_other) in
            [("", true, true), ("HOMINGTR...", true, false), ("HOMING", false, true), ("a,b", false, true)]
        {
            std::fs::write(&path, contents).unwrap();
            assert_eq!(Output::trace(&path).is_ok(), as_trace, "{contents}");
            assert_eq!(Output::create(&path).is_ok(), as_other, "{contents}");
        }
        let table = Output::create(&path).unwrap();
        std::fs::write(&path, "HOMINGTR...").unwrap();
        assert!(table.commit().is_err(), "the name has become a trace's");
        assert_eq!(std::fs::read(&path).unwrap(), b"HOMINGTR...");
    }

    #[test]
    fn a_file_keeps_its_rights_and_a_link_leads_where_it_led() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::create_dir(path("inner")).unwrap();
        std::fs::write(path("inner/it"), "before").unwrap();
        std::fs::set_permissions(path("inner/it"), Permissions::from_mode(0o600)).unwrap();
        symlink("inner/it", path("link")).unwrap();
        symlink("inner/new", path("dangling")).unwrap();
        for name in ["link", "dangling"] {
            let mut output = Output::create(&path(name)).unwrap();
            output.write_all(b"after").unwrap();
            output.commit().unwrap();
            assert!(path(name).is_symlink(), "{name}");
            assert_eq!(std::fs::read(path(name)).unwrap(), b"after");
        }
        assert_eq!(path("inner/it").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(place.path().read_dir().unwrap().count(), 3);
        assert_eq!(path("inner").read_dir().unwrap().count(), 2);
    }

    #[test]
    fn names_that_others_have_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("n".repeat(255));
        let taken = beside(&path, ".", &format!(".{}.part", std::process::id())).unwrap();
        let precious = place.path().join("precious");
        std::fs::write(&precious, "a thesis").unwrap();
        symlink(&precious, &taken).unwrap();
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"whole").unwrap();
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read(&precious).unwrap(), b"a thesis");
        assert!(taken.is_symlink());
    }
}
