//! Advisory locks that end with their holder, however that ends.

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// An exclusive lock on an open file, released on drop.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock, or returns `None` if somebody holds it.
    pub fn take(file: File) -> io::Result<Option<Lock>> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Lock {
    /// Closing alone would not do: a child process that is being started shares the open file until its exec, and the
    /// lock with it.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_with_its_holder_though_a_child_shares_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let open = || File::open(directory.path()).unwrap();
        let file = open();
        let shared = file.try_clone().unwrap();
        let held = Lock::take(file).unwrap().unwrap();
        assert!(Lock::take(open()).unwrap().is_none());
        drop(held);
        assert!(Lock::take(open()).unwrap().is_some());
        drop(shared);
    }
}
