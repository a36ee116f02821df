//! The recording wire: what `recorders/include/homing_wire.h` says, for Rust. The header is the only definition. Its
//! numbers are read when this crate is compiled; a name that the header lacks does not compile. The C compiler holds
//! its structs against the same numbers (`HOMING_LAID`).
#![forbid(unsafe_code)]

mod named;

pub use named::named;

/// The text of the header.
const HEADER: &str = include_str!("../../../recorders/include/homing_wire.h");

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $c:literal;)*) => {
        $($(#[$doc])* pub const $name: $type = named(HEADER, $c) as $type;)*
    };
}

numbers! {
    /// The version of the wire. A recorder puts its own into the header of the shared memory.
    VERSION: u32 = "HOMING_WIRE_VERSION";
    /// What the shared memory begins with.
    MAGIC: u64 = "HOMING_WIRE_MAGIC";
    /// The lowest bit of the operation in a control word; the payload is below it.
    OPERATION_AT: u32 = "HOMING_OPERATION_AT";
}

/// Bit 63: a control word.
pub const CONTROL: u64 = 1 << named(HEADER, "HOMING_CONTROL_BIT");
/// The payload of a control word.
pub const PAYLOAD: u64 = (1 << OPERATION_AT) - 1;

/// A control word.
pub const fn word(operation: u8, payload: u64) -> u64 {
    CONTROL | (operation as u64) << OPERATION_AT | payload
}

/// The operation of a control word.
pub const fn operation(word: u64) -> u8 {
    ((word & !CONTROL) >> OPERATION_AT) as u8
}

/// The operations of control words. The header says what each means and which words follow.
#[allow(missing_docs)]
pub mod op {
    use super::{named, HEADER};

    numbers! {
        BLOCK: u8 = "HOMING_BLOCK";
        DEFINE: u8 = "HOMING_DEFINE";
        THREAD: u8 = "HOMING_THREAD";
        THREAD_START: u8 = "HOMING_THREAD_START";
        THREAD_END: u8 = "HOMING_THREAD_END";
        THREAD_JOIN: u8 = "HOMING_THREAD_JOIN";
        SYNC: u8 = "HOMING_SYNC";
        MMAP: u8 = "HOMING_MMAP";
        MUNMAP: u8 = "HOMING_MUNMAP";
        BRK: u8 = "HOMING_BRK";
        MREMAP: u8 = "HOMING_MREMAP";
        ALLOC: u8 = "HOMING_ALLOC";
        FREE: u8 = "HOMING_FREE";
        NAME: u8 = "HOMING_NAME";
        SYMBOL: u8 = "HOMING_SYMBOL";
        ADVANCE: u8 = "HOMING_ADVANCE";
        MARK: u8 = "HOMING_MARK";
        LOST: u8 = "HOMING_LOST";
        FORK: u8 = "HOMING_FORK";
        KERNEL_ACCESS: u8 = "HOMING_KERNEL_ACCESS";
        CUT: u8 = "HOMING_CUT";
        SITE: u8 = "HOMING_SITE";
        REGION: u8 = "HOMING_REGION";
        EXEC: u8 = "HOMING_EXEC";
        LOOP: u8 = "HOMING_LOOP";
        WINDOW: u8 = "HOMING_WINDOW";
        HUGE: u8 = "HOMING_HUGE";
    }

    /// The number of words that follow an operation; none where the payload or the words say so, and where there is no
    /// such operation.
    pub const fn operands(operation: u8) -> Option<usize> {
        Some(match operation {
            THREAD | THREAD_END | THREAD_JOIN | ADVANCE | FORK | REGION => 0,
            THREAD_START | FREE | MARK | LOST | CUT | WINDOW => 1,
            SYNC | MUNMAP | BRK | KERNEL_ACCESS | HUGE => 2,
            ALLOC | SYMBOL => 3,
            MMAP | MREMAP => 4,
            _ => return None,
        })
    }
}

/// What a synchronisation does: the payload of [`op::SYNC`].
#[allow(missing_docs)]
pub mod sync {
    use super::{named, HEADER};

    numbers! {
        RELEASE: u64 = "HOMING_SYNC_RELEASE";
        ACQUIRE: u64 = "HOMING_SYNC_ACQUIRE";
        BOTH: u64 = "HOMING_SYNC_BOTH";
    }
}

/// Functions that allocate: the payload of [`op::ALLOC`].
#[allow(missing_docs)]
pub mod alloc {
    use super::{named, HEADER};

    numbers! {
        MALLOC: u8 = "HOMING_ALLOC_MALLOC";
        CALLOC: u8 = "HOMING_ALLOC_CALLOC";
        REALLOC: u8 = "HOMING_ALLOC_REALLOC";
        MEMALIGN: u8 = "HOMING_ALLOC_MEMALIGN";
        NEW: u8 = "HOMING_ALLOC_NEW";
        NEW_ARRAY: u8 = "HOMING_ALLOC_NEW_ARRAY";
    }
}

/// How a recorder writes.
#[allow(missing_docs)]
pub mod flavour {
    use super::{named, HEADER};

    numbers! {
        SERIAL: u32 = "HOMING_FLAVOUR_SERIAL";
        PARALLEL: u32 = "HOMING_FLAVOUR_PARALLEL";
    }
}

/// Where the parts of words are: the number of the lowest bit, or of the only one.
#[allow(missing_docs)]
pub mod bit {
    use super::{named, HEADER};

    numbers! {
        REFERENCE_CODE: u32 = "HOMING_REFERENCE_CODE_AT";
        REFERENCE_SIZE: u32 = "HOMING_REFERENCE_SIZE_AT";
        REFERENCE_WRITE: u32 = "HOMING_REFERENCE_WRITE_BIT";
        ACCESS_SIZE: u32 = "HOMING_ACCESS_SIZE_AT";
        ACCESS_WRITE: u32 = "HOMING_ACCESS_WRITE_BIT";
        ACCESS_ATOMIC: u32 = "HOMING_ACCESS_ATOMIC_BIT";
        ACCESS_DERIVED: u32 = "HOMING_ACCESS_DERIVED_BIT";
        ACCESS_EXIT: u32 = "HOMING_ACCESS_EXIT_BIT";
        ACCESS_GUARDED: u32 = "HOMING_ACCESS_GUARDED_BIT";
        ACCESS_WORD: u32 = "HOMING_ACCESS_WORD_AT";
        ACCESS_STEPS: u32 = "HOMING_ACCESS_STEPS_BIT";
        ACCESS_OFFSET: u32 = "HOMING_ACCESS_OFFSET_AT";
        NAME_ID: u32 = "HOMING_NAME_ID_AT";
    }
}

/// Byte offsets in the shared memory's header, and the sizes of what is in it.
#[allow(missing_docs)]
pub mod at {
    use super::{named, HEADER};

    numbers! {
        MAGIC: usize = "HOMING_AT_MAGIC";
        SEGMENTS: usize = "HOMING_AT_SEGMENTS";
        SEGMENT_WORDS: usize = "HOMING_AT_SEGMENT_WORDS";
        STOP: usize = "HOMING_AT_STOP";
        FLAVOUR: usize = "HOMING_AT_FLAVOUR";
        HEADER_BYTES: usize = "HOMING_AT_HEADER_BYTES";
        CHILDREN: usize = "HOMING_AT_CHILDREN";
        VERSION: usize = "HOMING_AT_VERSION";
        CURSOR_BASE: usize = "HOMING_AT_CURSOR_BASE";
        OPEN_END: usize = "HOMING_AT_OPEN_END";
        WINDOW: usize = "HOMING_AT_WINDOW";
        PROGRESS: usize = "HOMING_AT_PROGRESS";
        WINDOW_AT: usize = "HOMING_AT_WINDOW_AT";
        OPEN: usize = "HOMING_AT_OPEN";
        OPEN_SEGMENT: usize = "HOMING_AT_OPEN_SEGMENT";
        OPEN_THREAD: usize = "HOMING_AT_OPEN_THREAD";
        OPEN_INDEX: usize = "HOMING_AT_OPEN_INDEX";
        OPEN_WORDS: usize = "HOMING_AT_OPEN_WORDS";
        FULL_SEGMENT: usize = "HOMING_AT_FULL_SEGMENT";
        FULL_WORDS: usize = "HOMING_AT_FULL_WORDS";
        FULL_STREAM: usize = "HOMING_AT_FULL_STREAM";
        FULL_INDEX: usize = "HOMING_AT_FULL_INDEX";
    }

    numbers! {
        /// Entries of `open`.
        MAX_OPEN: usize = "HOMING_WIRE_MAX_OPEN";
        /// Bytes of an entry.
        OPEN_BYTES: usize = "HOMING_OPEN_BYTES";
        /// Bytes of the message that posts a segment.
        FULL_BYTES: usize = "HOMING_FULL_BYTES";
    }
}

// Both ends use these as atomics, which have to be aligned.
const _: () = {
    let fields_of_4 = [
        at::SEGMENTS,
        at::SEGMENT_WORDS,
        at::STOP,
        at::FLAVOUR,
        at::CHILDREN,
        at::VERSION,
        at::OPEN_END,
        at::WINDOW,
    ];
    let fields_of_8 = [
        at::MAGIC,
        at::HEADER_BYTES,
        at::CURSOR_BASE,
        at::PROGRESS,
        at::WINDOW_AT,
        at::OPEN,
        at::OPEN_BYTES,
        at::OPEN_WORDS,
    ];
    let mut i = 0;
    while i < fields_of_4.len() {
        assert!(fields_of_4[i].is_multiple_of(4) && fields_of_4[i] + 4 <= at::OPEN);
        i += 1;
    }
    i = 0;
    while i < fields_of_8.len() {
        assert!(fields_of_8[i].is_multiple_of(8));
        i += 1;
    }
    assert!(at::OPEN_SEGMENT + 4 <= at::OPEN_THREAD && at::OPEN_THREAD + 4 <= at::OPEN_INDEX);
    assert!(at::OPEN_INDEX + 4 <= at::OPEN_WORDS && at::OPEN_WORDS + 8 <= at::OPEN_BYTES);
};

#[cfg(test)]
mod tests;
