//! Files that are cut or changed while they are mapped. A process of its own: what changed stays known to it.

use homing_linux::files::{Output, Over};
use homing_linux::mapped;
use std::fs::File;
use std::io::Write;

/// Bytes of a page on all machines that Homing runs on, or more.
const PAGE: usize = 1 << 16;

#[test]
fn what_was_cut_or_changed_is_an_error_of_all_that_is_made_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["whole", "cut", "changed"] {
        std::fs::write(path(name), vec![1; 4 * PAGE]).unwrap();
    }
    let whole = mapped::open(&path("whole")).unwrap();
    mapped::check().unwrap();
    std::fs::rename(path("whole"), path("renamed")).unwrap();
    let mut output = Output::create(&path("table"), Over::Texts).unwrap();
    output.write_all(b"a,b\n").unwrap();
    mapped::check().unwrap();

    let cut = mapped::open(&path("cut")).unwrap();
    assert_eq!(cut[3 * PAGE], 1);
    File::options().write(true).open(path("cut")).unwrap().set_len(PAGE as u64 + 1).unwrap();
    assert_eq!((cut[PAGE - 1], cut[2 * PAGE], cut[4 * PAGE - 1]), (1, 0, 0), "no SIGBUS");
    let error = mapped::check().unwrap_err().to_string();
    assert!(error.contains("cut was changed while it was read"), "{error}");
    // Not all that was made of it is handed out yet.
    drop(cut);
    assert!(mapped::check().is_err());
    assert!(output.commit().is_err() && !path("table").exists());
    assert_eq!(whole[3 * PAGE], 1);

    let faulty = mapped::open(&path("changed")).unwrap();
    let changed = File::options().read(true).write(true).open(path("changed")).unwrap();
    changed.set_len(0).unwrap();
    changed.set_len(4 * PAGE as u64).unwrap();
    assert_eq!(faulty[PAGE], 0);
    // A fault in memory that is not guarded ends the program as ever.
    assert_eq!(child_that_faults(&changed), libc::SIGBUS);
}

/// The signal that ends a child which reads behind the end of a file that it has mapped by itself.
fn child_that_faults(file: &File) -> i32 {
    file.set_len(0).unwrap();
    let mut status = 0;
    // SAFETY: the child makes system calls alone, and ends.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            use std::os::fd::AsRawFd;
            let (none, read) = (std::ptr::null_mut(), libc::PROT_READ);
            let at = libc::mmap(none, PAGE, read, libc::MAP_SHARED, file.as_raw_fd(), 0).cast::<u8>();
            libc::_exit(i32::from(at.read_volatile()));
        }
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    if libc::WIFSIGNALED(status) {
        libc::WTERMSIG(status)
    } else {
        0
    }
}
