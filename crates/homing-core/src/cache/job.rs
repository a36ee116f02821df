//! Work that goes on beside its owner, and never without one.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Work on rayon's threads. It is over when this is dropped; what panics there panics here.
#[derive(Debug)]
pub(super) struct Job<T>(Option<Receiver<thread::Result<T>>>);

impl<T: Send + 'static> Job<T> {
    /// Begins. Not on one of rayon's own threads: it would wait for the others.
    pub fn begin(work: impl FnOnce() -> T + Send + 'static) -> Job<T> {
        let (give, take) = mpsc::channel();
        rayon::spawn(move || {
            give.send(catch_unwind(AssertUnwindSafe(work))).expect("the job waits for its result");
        });
        Job(Some(take))
    }

    /// What came of it.
    pub fn wait(mut self) -> T {
        let result = self.0.take().expect("only `wait` and `drop` take it").recv();
        result.expect("the work sends its result").unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        let result = self.0.take().and_then(|take| take.recv().ok());
        match result {
            Some(Err(panic)) if !thread::panicking() => resume_unwind(panic),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    #[test]
    fn work_is_over_when_its_owner_is_gone() {
        let over = Arc::new(AtomicBool::new(false));
        let work = Arc::clone(&over);
        let job = Job::begin(move || {
            thread::sleep(std::time::Duration::from_millis(10));
            work.store(true, Ordering::Release);
        });
        drop(job);
        assert!(over.load(Ordering::Acquire));
        assert_eq!(Job::begin(|| 7).wait(), 7);
    }

    #[test]
    fn what_panics_beside_its_owner_panics_in_it() {
        let wait = catch_unwind(|| Job::begin(|| panic!("beside")).wait());
        let dropped = catch_unwind(|| drop(Job::begin(|| panic!("beside"))));
        for panic in [wait.unwrap_err(), dropped.unwrap_err()] {
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"beside"));
        }
    }
}
