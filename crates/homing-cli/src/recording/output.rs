//! The file that a recording goes to: written as `NAME.part`, renamed when it is complete.

use crate::exit::{self, Code};
use crate::files::refuse_other_files;
use anyhow::Context;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A trace being written.
#[derive(Debug)]
pub struct Output {
    wanted: PathBuf,
    part: PathBuf,
}

impl Output {
    /// Creates the partial file.
    ///
    /// # Errors
    /// If `wanted` exists and is anything but a trace: a recording overwrites recordings only.
    pub fn create(wanted: &Path) -> anyhow::Result<(Output, File)> {
        if wanted.metadata().is_ok_and(|facts| !facts.is_file()) {
            let name = wanted.display();
            let message = format!("{name} exists and is not a regular file: choose another name with -o");
            return Err(exit::error(Code::USAGE, message));
        }
        refuse_other_files(wanted)?;
        let mut part = wanted.as_os_str().to_owned();
        part.push(".part");
        let output = Output { wanted: wanted.to_owned(), part: part.into() };
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&output.part);
        let file = file.with_context(|| format!("cannot create {}", output.part.display()))?;
        Ok((output, file))
    }

    /// The file as it is called while it is incomplete.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Gives the complete file its name.
    pub fn complete(self) -> anyhow::Result<PathBuf> {
        std::fs::rename(&self.part, &self.wanted)
            .with_context(|| format!("cannot rename {} to {}", self.part.display(), self.wanted.display()))?;
        Ok(self.wanted)
    }

    /// Removes the partial file: nothing was recorded.
    pub fn discard(self) {
        // Nothing of worth is lost if it stays.
        let _ = std::fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_traces_are_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("x.trace");
        for (content, allowed) in [(&b"HOMINGTR..."[..], true), (b"", true), (b"precious", false)] {
            std::fs::write(&name, content).unwrap();
            assert_eq!(Output::create(&name).is_ok(), allowed);
        }
        assert!(Output::create(directory.path()).is_err());
        assert!(Output::create(&directory.path().join("absent/x")).is_err());
    }

    #[test]
    fn the_name_appears_when_the_file_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("x.trace");
        let (output, mut file) = Output::create(&name).unwrap();
        file.write_all(b"HOMINGTR").unwrap();
        assert!(!name.exists() && output.part().exists());
        assert_eq!(output.complete().unwrap(), name);
        assert_eq!(std::fs::read(&name).unwrap(), b"HOMINGTR");
    }
}
