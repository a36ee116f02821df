//! Whether standard output was closed when the program began. The runtime of the standard library opens `/dev/null` in
//! the place of a closed descriptor before `main`, and what is printed there would seem to have gone somewhere.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the program began.
pub fn stdout_was() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: it only asks about a descriptor, and needs nothing that `main` would have to prepare.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// The loader calls what this section lists before the runtime of the standard library begins.
#[used]
#[link_section = ".init_array"]
static LOOK: extern "C" fn() = look;
