//! Output files that appear whole or not at all.

use super::error::While;
use super::target::Target;
use super::{FileError, Over};
use crate::{mapped, unnamed};
use rustix::fs::fstat;
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Names that are tried for an unfinished file.
const TRIES: u32 = 1000;

/// An output file that gets its name by [`Output::commit`], in the place of what had it: with its access rights, and
/// where the name is a link, in the place of what it leads to. Ended before that, in whatever way, it leaves nothing
/// behind. What exists and is no regular file (a pipe, a device) is written directly.
pub struct Output {
    target: Target,
    over: Over,
    /// The only file that may lose its name to this one: device and inode.
    instead_of: Option<(u64, u64)>,
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
    Temporary(Target),
}

impl Output {
    /// Begins an output file, which may take the place of such a file alone.
    pub fn create(path: &Path, over: Over) -> Result<Output, FileError> {
        Output::begin(Target::of(path)?, over)
    }

    /// Begins a trace in the place of one that is open for reading under this name, and of no other file: nobody asked
    /// for a file to be written.
    ///
    /// # Errors
    /// If the file or its directory is another user's, or the name has become another file's; as for
    /// [`Output::create`].
    pub fn instead_of(path: &Path, read: &File) -> Result<Output, FileError> {
        let target = Target::of(path)?;
        target.check_ours(read)?;
        if !target.is(read) {
            return Err(FileError::Replaced(path.to_owned()));
        }
        let facts = fstat(read).doing(|| format!("cannot look at {}", path.display()))?;
        let mut output = Output::begin(target, Over::Traces)?;
        output.instead_of = Some((facts.st_dev, facts.st_ino));
        Ok(output)
    }

    fn begin(target: Target, over: Over) -> Result<Output, FileError> {
        over.check_target(&target)?;
        let context = || format!("cannot write {}", target.path().display());
        let made = |target, stage, file| Ok(Output { target, over, instead_of: None, stage, file });
        if target.is_written_through() {
            let file = target.open_through().doing(context)?;
            return made(target, Stage::Final, file);
        }
        let (stage, file) = match target.create_unnamed() {
            Ok(file) => (Stage::Unnamed, file),
            Err(_) => {
                let (name, file) = under_a_new_name(&target, Target::create_new).doing(context)?;
                (Stage::Temporary(name), file)
            }
        };
        target.keep_access(&file);
        made(target, stage, file)
    }

    /// Gives the finished file these permissions.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode))
    }

    /// The file, to be read once it is written.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the finished file its name.
    ///
    /// # Errors
    /// If that fails, or a file that this process reads by mapping it was changed ([`mapped::check`]): then nothing of
    /// what was written is kept.
    pub fn commit(mut self) -> Result<(), FileError> {
        mapped::check().doing(|| format!("nothing is written to {}", self.target.path().display()))?;
        if let Stage::Final = self.stage {
            return Ok(());
        }
        // Somebody may have given the name to something else meanwhile.
        self.over.check_target(&self.target)?;
        let path = self.target.path().to_owned();
        let context = || format!("cannot give the finished file its name {}", path.display());
        if let Stage::Unnamed = self.stage {
            // A name can be replaced by renaming only.
            let name = |name: &Target| unnamed::name(&self.file, name.directory(), name.name());
            let (name, ()) = under_a_new_name(&self.target, name).doing(context)?;
            self.stage = Stage::Temporary(name);
        }
        if let Stage::Temporary(temporary) = &self.stage {
            match self.instead_of {
                Some(read) => self.take_the_place(temporary, read)?,
                None => temporary.rename(&self.target).doing(context)?,
            }
            self.stage = Stage::Final;
        }
        Ok(())
    }

    /// Gives the finished file the name if the file that was read still has it.
    fn take_the_place(&self, temporary: &Target, read: (u64, u64)) -> Result<(), FileError> {
        let target = &self.target;
        let context = || format!("cannot give the finished file its name {}", target.path().display());
        let is_read = |name: &Target| name.facts().is_some_and(|facts| (facts.st_dev, facts.st_ino) == read);
        if !is_read(target) {
            return Err(FileError::Replaced(target.path().to_owned()));
        }
        match temporary.exchange(target) {
            // The file system cannot: there the name may become another's from the last look on.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => temporary.rename(target).doing(context),
            Err(error) => Err(error).doing(context),
            Ok(()) if is_read(temporary) => temporary.remove().doing(context),
            Ok(()) => {
                temporary.exchange(target).doing(context)?;
                Err(FileError::Replaced(target.path().to_owned()))
            }
        }
    }
}

/// Makes something under a name beside `target` that nothing else has.
pub fn under_a_new_name<T>(
    target: &Target,
    make: impl Fn(&Target) -> io::Result<T>,
) -> Result<(Target, T), FileError> {
    let process = std::process::id();
    for number in 1..=TRIES {
        let after =
            if number == 1 { format!(".{process}.part") } else { format!(".{process}-{number}.part") };
        let name = target.beside(".", &after);
        match make(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                let made = made.doing(|| format!("cannot create {}", name.path().display()))?;
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
            // Whatever else has the name by now is left. Nothing more can be done about a file that cannot be removed;
            // the error that led here is reported.
            if temporary.is(&self.file) {
                let _ = temporary.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, MetadataExt};

    #[test]
    fn a_file_of_another_kind_is_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("it");
        std::fs::write(&path, "a,b").unwrap();
        assert!(Output::create(&path, Over::Traces).is_err());
        let table = Output::create(&path, Over::Texts).unwrap();
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
            let mut output = Output::create(&path(name), Over::Texts).unwrap();
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
        let taken = Target::of(&path).unwrap().beside(".", &format!(".{}.part", std::process::id()));
        let taken = taken.path();
        let precious = place.path().join("precious");
        std::fs::write(&precious, "a thesis").unwrap();
        symlink(&precious, taken).unwrap();
        let mut output = Output::create(&path, Over::Texts).unwrap();
        output.write_all(b"whole").unwrap();
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read(&precious).unwrap(), b"a thesis");
        assert!(taken.is_symlink());
    }
}
