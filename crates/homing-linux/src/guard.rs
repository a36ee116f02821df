//! Work that must not stop half-way when the engine is killed. While a thread of the program makes a system call for us
//! its registers are ours; were its tracer to die then, the kernel would let it go on with them and the program would
//! crash. So a process of its own does such work: it ends what it has begun when the engine is killed.

use rustix::event::{poll, PollFd, PollFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long an answer is waited for. The work takes microseconds, unless a thread of the program hangs in a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the work gives back besides an error.
pub type Values = [u64; 2];

/// First word of the answer: the values follow, an error number follows, or a message.
const DONE: u64 = 0;
const NUMBER: u64 = 1;
const MESSAGE: u64 = 2;

/// Does `work` in a process of its own and waits for it. The work must not write to standard output or error, and what
/// it changes in memory stays there.
///
/// # Errors
/// Those of the work; what `pipe2` and `fork` give; if the process was killed itself; TimedOut if it is not done after
/// [`PATIENCE`].
pub fn guarded(work: impl FnOnce() -> io::Result<Values>) -> io::Result<Values> {
    let (mut read, write) = pipe()?;
    // SAFETY: the child runs `work` and ends by `_exit`. glibc makes its allocator usable in a child of a process of
    // many threads; nothing else that another thread may have locked is used there.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        drop(read);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let result = result.unwrap_or_else(|_| Err(io::Error::other("a bug in work on a process")));
        // If the engine is gone nobody wants to know.
        let _ = File::from(write).write_all(&encode(&result));
        // SAFETY: ends this process without running what belongs to the parent.
        unsafe { libc::_exit(0) };
    }
    drop(write);
    if !answers(&read)? {
        // It must not be stopped half-way: it goes on alone, and is waited for where that holds nobody up.
        std::thread::spawn(move || wait_for(child));
        let message = format!("work on a process is not done after {} s; it goes on", PATIENCE.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    }
    let mut answer = Vec::new();
    let got = read.read_to_end(&mut answer);
    wait_for(child);
    got?;
    decode(&answer)
}

/// Waits until there is an answer, or the guard has ended, for [`PATIENCE`] at most.
fn answers(read: &File) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let milliseconds = left.as_millis() as i32;
        match poll(&mut [PollFd::new(read, PollFlags::IN)], milliseconds) {
            Ok(0) if left.is_zero() => return Ok(false),
            // A signal to the engine cuts the wait short.
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are then ours.
    match unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } {
        // SAFETY: as above.
        0 => Ok(unsafe { (File::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait_for(child: libc::pid_t) {
    // SAFETY: no status is asked for; the child is ours and nobody else waits for it.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

fn encode(result: &io::Result<Values>) -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    match result {
        Ok([a, b]) => words(&[DONE, *a, *b]),
        Err(error) => match error.raw_os_error() {
            Some(errno) => words(&[NUMBER, errno as u64]),
            None => [words(&[MESSAGE]), error.to_string().into_bytes()].concat(),
        },
    }
}

fn decode(answer: &[u8]) -> io::Result<Values> {
    let word = |at: usize| Some(u64::from_ne_bytes(answer.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    match (word(0), word(1), word(2)) {
        (Some(DONE), Some(a), Some(b)) => Ok([a, b]),
        (Some(NUMBER), Some(errno), _) => Err(io::Error::from_raw_os_error(errno as i32)),
        (Some(MESSAGE), ..) => Err(io::Error::other(String::from_utf8_lossy(&answer[8..]).into_owned())),
        _ => Err(io::Error::other("work on a process was killed half-way")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_errors_and_messages_come_back() {
        assert_eq!(guarded(|| Ok([7, 9])).unwrap(), [7, 9]);
        let errno = guarded(|| Err(io::Error::from_raw_os_error(libc::ESRCH))).unwrap_err().raw_os_error();
        assert_eq!(errno, Some(libc::ESRCH));
        let message = guarded(|| Err(io::Error::other("no vdso"))).unwrap_err().to_string();
        assert_eq!(message, "no vdso");
        let killed = guarded(|| {
            // SAFETY: ends this process, which is the guarded one.
            unsafe { libc::raise(libc::SIGKILL) };
            Ok([0, 0])
        });
        assert!(killed.unwrap_err().to_string().contains("killed"));
    }
}
