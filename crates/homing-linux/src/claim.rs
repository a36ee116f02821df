//! One engine a cgroup: who works on a cgroup holds a lock on its directory, which goes with its holder, however that ends.

use crate::lock::Lock;
use std::fs::File;
use std::io;
use std::path::Path;

/// The right to move the pages of a cgroup's processes.
#[derive(Debug)]
pub struct Claim {
    _lock: Lock,
}

impl Claim {
    /// Claims the cgroup whose directory is `cgroup`.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if another engine has claimed it.
    pub fn of(cgroup: &Path) -> io::Result<Claim> {
        let lock = Lock::take(File::open(cgroup)?)?.ok_or_else(|| {
            let message =
                format!("another homing moves the pages of {}: only one can at a time", cgroup.display());
            io::Error::new(io::ErrorKind::ResourceBusy, message)
        })?;
        Ok(Claim { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_has_one_engine_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let claim = Claim::of(directory.path()).unwrap();
        let refused = Claim::of(directory.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        drop(claim);
        assert!(Claim::of(directory.path()).is_ok());
    }
}
