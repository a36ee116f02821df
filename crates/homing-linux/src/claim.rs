//! One engine a cgroup: who works on a cgroup holds a lock that is named after its inode, which goes with its holder,
//! however that ends. Engines of different users do not see each other's locks, so that no user can keep another's
//! engine out.

use crate::private::{Private, PrivateLock};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The right to move the pages of a cgroup's processes.
#[derive(Debug)]
pub struct Claim {
    _lock: PrivateLock,
}

impl Claim {
    /// Claims the cgroup whose directory is `cgroup` among the engines that keep their locks in `locks`. If the engine
    /// that has claimed it was killed, waits for what that had begun.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if another engine has claimed it; as for [`Private::open`].
    pub fn of(cgroup: &Path, locks: &Path) -> io::Result<Claim> {
        let facts = cgroup.metadata()?;
        let name = format!("cgroup-{:x}-{:x}.lock", facts.dev(), facts.ino());
        let lock = Private::open(locks)?.lock(&name, |holder| {
            format!(
                "another homing ({holder}) moves the pages of {}: only one can at a time; wait for its end, or end it",
                cgroup.display()
            )
        })?;
        Ok(Claim { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;
    use std::fs::File;

    #[test]
    fn a_cgroup_has_one_engine_at_a_time() {
        let (cgroup, locks) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let claim = || Claim::of(cgroup.path(), locks.path());
        let first = claim().unwrap();
        let refused = claim().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert!(refused.to_string().contains(&format!("another homing (process {})", std::process::id())));
        let alias = cgroup.path().join(".");
        assert!(Claim::of(&alias, locks.path()).is_err(), "by whatever path");
        let other = tempfile::tempdir().unwrap();
        assert!(Claim::of(other.path(), locks.path()).is_ok());
        drop(first);
        assert!(claim().is_ok());
    }

    #[test]
    fn who_can_only_read_the_cgroup_keeps_nobody_out() {
        let (cgroup, locks) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _held = Lock::take(File::open(cgroup.path()).unwrap()).unwrap().unwrap();
        assert!(Claim::of(cgroup.path(), locks.path()).is_ok());
    }
}
