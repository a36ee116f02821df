//! Programs that a test writes and runs.

use std::path::Path;
use std::process::Command;

/// Writes a file that can be executed. Another process writes it: where several tests run at once, a process that one
/// of them starts could inherit the file while it is open for writing here, and it could not be executed (`ETXTBSY`).
pub fn write(file: &Path, text: &str) {
    copy(text.as_bytes(), file, 0o755);
}

/// The same of any content, with these permissions.
pub fn copy(content: &[u8], file: &Path, mode: u32) {
    let source = file.with_extension("source");
    std::fs::write(&source, content).expect("a file in a directory of the test's own");
    let mut install = Command::new("install");
    let status =
        install.arg("-m").arg(format!("{mode:o}")).arg(&source).arg(file).status().expect("install runs");
    assert!(status.success(), "{}", file.display());
}
