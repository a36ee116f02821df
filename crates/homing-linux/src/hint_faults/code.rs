//! The machine code of the scanning helper (`scanner.s`), and where what stands in the page that the engine shares with
//! it (`layout.s`). Both files are also part of the preloaded library (`preload/scan.c`).

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text", // where a program that tunes itself can run it
    include_str!("layout.s"),
    include_str!("scanner.s"),
    ".popsection",
);

// There is none for other processors, and nothing that could start it (`ptrace::call`).
#[cfg(not(target_arch = "x86_64"))]
std::arch::global_asm!(
    ".pushsection .rodata",
    ".balign 8",
    "homing_scanner_begin:",
    "homing_scanner_end:",
    "homing_scanner_words:",
    "homing_scanner_words_end:",
    ".popsection",
);

extern "C" {
    static homing_scanner_begin: u8;
    static homing_scanner_end: u8;
    static homing_scanner_words: [u64; 2];
    static homing_scanner_words_end: [u64; 2];
}

/// The code, which runs wherever it is put.
pub fn code() -> &'static [u8] {
    // SAFETY: both labels bound one stretch of read-only bytes of this program.
    unsafe {
        let (begin, end) = (&raw const homing_scanner_begin, &raw const homing_scanner_end);
        std::slice::from_raw_parts(begin, end.offset_from(begin) as usize)
    }
}

/// Runs the code in this process, which starts a helper whose shared page this is: gives the go-between, whose end is
/// to be waited for, or an error as the kernel says it. All signals are to be blocked.
#[cfg(target_arch = "x86_64")]
pub fn begin(page: *mut u64) -> i64 {
    let between: i64;
    // SAFETY: what is called keeps all registers but those named, and its processes have stacks of their own, in the
    // page, which is as long-lived as they are.
    unsafe {
        std::arch::asm!(
            "call {begin}",
            begin = sym homing_scanner_begin,
            in("r12") page,
            lateout("rax") between,
            out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r10") _, out("r11") _,
        );
    }
    between
}

/// There is no such code for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn begin(_page: *mut u64) -> i64 {
    -i64::from(libc::ENOSYS)
}

/// What the shared page begins with: offsets and words. All others are 0.
pub fn words() -> &'static [[u64; 2]] {
    // SAFETY: as above; the first label is aligned.
    unsafe {
        let (begin, end) = (&raw const homing_scanner_words, &raw const homing_scanner_words_end);
        std::slice::from_raw_parts(begin, end.offset_from(begin) as usize)
    }
}

/// Offsets in the shared page.
pub mod at {
    use super::offset;

    pub const STOP: u64 = offset("at_stop");
    pub const COUNT_NS: u64 = offset("at_count_ns");
    pub const BEAT: u64 = offset("at_beat");
    pub const ENDED: u64 = offset("at_ended");
    pub const GRANT: u64 = offset("at_grant");
    pub const PROGRAM: u64 = offset("at_program");
    pub const HELPER: u64 = offset("at_helper");
    pub const USED: u64 = offset("at_used");
    pub const GO: u64 = offset("at_go");
    pub const SCRATCH: u64 = offset("at_scratch");
    pub const READY: u64 = offset("at_ready");
    pub const PASS_NS: u64 = offset("at_pass_ns");
    pub const MARKED: u64 = offset("at_marked");
    pub const TICK_NS: u64 = offset("at_tick_ns");
}

/// The number that `layout.s` gives a name; a name that it lacks does not compile.
const fn offset(name: &str) -> u64 {
    homing_wire::named(include_str!("layout.s"), name)
}

#[cfg(test)]
mod tests {
    use super::super::{PAGE, SCANNER_NAME};
    use super::*;

    #[test]
    fn the_layout_is_sound() {
        let lines: Vec<(&str, u64)> = include_str!("layout.s")
            .lines()
            .filter_map(|line| line.strip_prefix(".set ")?.split_once(", "))
            .map(|(name, rest)| (name, rest.split_whitespace().next().unwrap().parse().unwrap()))
            .collect();
        assert!(lines.len() > 20);
        assert!(lines.windows(2).all(|pair| pair[0].1 < pair[1].1), "each has a place of its own");
        assert!(lines.iter().all(|(_, at)| at % 8 == 0 && *at < PAGE));
        // The assembler's reading of the file and ours are the same.
        let name = SCANNER_NAME.as_bytes();
        let first = u64::from_ne_bytes(name[..8].try_into().unwrap());
        let at_name = lines.iter().find(|(name, _)| *name == "at_name").unwrap().1;
        assert!(words().contains(&[at_name, first]), "{:x?}", words());
        assert!(words().iter().all(|[at, _]| at % 8 == 0 && *at < PAGE));
        assert!(code().len() < PAGE as usize);
    }
}
