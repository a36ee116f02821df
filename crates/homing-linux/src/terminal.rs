//! The state of the terminal, put back after something else had it.

use rustix::event::{poll, PollFd, PollFlags};
use rustix::termios::{isatty, tcgetattr, tcsetattr, OptionalActions, Termios};

/// True if a page can be shown and keys can be read: stdin and stdout are terminals.
pub fn is_there() -> bool {
    isatty(std::io::stdin()) && isatty(std::io::stdout())
}

/// True once the terminal at stdin has hung up: reading from it ends, and writing to it fails. A signal says so as well
/// (SIGHUP), unless it is ignored or the terminal is that of other processes.
pub fn is_gone() -> bool {
    let stdin = std::io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut polled, 0).is_ok() && polled[0].revents().intersects(gone)
}

/// The state of the terminal at stdin; dropping it puts the terminal back into that state.
#[derive(Debug)]
pub struct Saved(Termios);

impl Saved {
    /// The state now; `None` if stdin is no terminal.
    pub fn of_stdin() -> Option<Saved> {
        let stdin = std::io::stdin();
        isatty(&stdin).then(|| tcgetattr(&stdin).ok().map(Saved)).flatten()
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        // A terminal that went away needs no state.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}
