//! Mappings of a process: proc_pid_maps(5).

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
    /// Shared (not copied on write).
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// The file's device: major number in the upper half, minor number in the lower.
    pub device: u64,
    /// The file's inode; 0 for none.
    pub inode: u64,
    /// The file, `[heap]`, `[stack]`, `[anon:NAME]`, or nothing.
    pub name: String,
}

/// What a mapping holds, as far as moving its pages is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The program's break area.
    Heap,
    /// The first thread's stack.
    Stack,
    /// Anonymous private memory: arrays, other threads' stacks, most allocators' memory.
    Anonymous,
    /// Private pages of a file: data segments, copied on the first write.
    FilePrivate,
    /// Pages of the page cache: code, shared files. Other processes may use them too.
    PageCache,
    /// Shared memory without a file that others would see by name.
    SharedMemory,
    /// The kernel's own: vdso, vvar, vsyscall, device memory. Never moved.
    Special,
}

impl Class {
    /// All, in the order of tables.
    pub const ALL: [Class; 7] = [
        Class::Heap,
        Class::Stack,
        Class::Anonymous,
        Class::FilePrivate,
        Class::PageCache,
        Class::SharedMemory,
        Class::Special,
    ];

    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Class::Heap => "heap",
            Class::Stack => "stack",
            Class::Anonymous => "anonymous",
            Class::FilePrivate => "file-private",
            Class::PageCache => "page-cache",
            Class::SharedMemory => "shared-memory",
            Class::Special => "special",
        }
    }

    /// True if the engine may move its pages: they belong to the process alone.
    pub fn movable(self) -> bool {
        !matches!(self, Class::PageCache | Class::Special)
    }
}

impl Mapping {
    /// Parses a line.
    pub fn parse(line: &str) -> Option<Mapping> {
        let mut rest = line;
        let mut field = || {
            let text = rest.trim_start();
            let (field, after) = text.split_once(' ').unwrap_or((text, ""));
            rest = after;
            Some(field).filter(|field| !field.is_empty())
        };
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?.as_bytes();
        let offset = field()?;
        let (major, minor) = field()?.split_once(':')?;
        let inode = field()?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let flag = |at: usize, letter: u8| permissions.get(at) == Some(&letter);
        (start < end && permissions.len() == 4).then(|| {
            Some(Mapping {
                start,
                end,
                read: flag(0, b'r'),
                write: flag(1, b'w'),
                execute: flag(2, b'x'),
                shared: flag(3, b's'),
                offset: hex(offset)?,
                device: hex(major)? << 32 | hex(minor)?,
                inode: inode.parse().ok()?,
                name: rest.trim().to_owned(),
            })
        })?
    }

    /// What it holds.
    pub fn class(&self) -> Class {
        match self.name.as_str() {
            "[heap]" => Class::Heap,
            "[stack]" => Class::Stack,
            "[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" | "[uprobes]" => Class::Special,
            name if name.starts_with("/dev/")
                && !name.starts_with("/dev/shm/")
                && !name.starts_with("/dev/zero") =>
            {
                Class::Special
            }
            name if self.shared
                && (name.starts_with("/dev/zero")
                    || name.starts_with("/memfd:")
                    || name.starts_with("/SYSV")
                    || name.starts_with("/dev/shm/")) =>
            {
                Class::SharedMemory
            }
            _ if self.inode == 0 => {
                if self.shared {
                    Class::SharedMemory
                } else {
                    Class::Anonymous
                }
            }
            _ if self.shared || !self.write => Class::PageCache,
            _ => Class::FilePrivate,
        }
    }

    /// True for memory of System V, whose inode is the segment's number in its namespace.
    pub fn is_system_v(&self) -> bool {
        self.shared && self.name.starts_with("/SYSV")
    }

    /// True if the address is in it.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The name that tables show: the last part of a file's path, `heap`, `stack`, `anon:NAME`, or the class.
    pub fn short_name(&self) -> &str {
        match self.name.rsplit('/').next() {
            Some(name) if !name.is_empty() => name.trim_start_matches('[').trim_end_matches(']'),
            _ => self.class().name(),
        }
    }
}

/// The mapping of `maps`, which are by address, that holds the address.
pub fn find(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = maps.partition_point(|mapping| mapping.start <= address);
    maps[..after].last().filter(|mapping| mapping.holds(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c7a00000-55d0c7a02000 r--p 00000000 fd:01 262 /usr/bin/a b
55d0c7a02000-55d0c7a03000 rw-p 00002000 fd:01 262 /usr/bin/a b
55d0c8000000-55d0c8021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
7f0000200000-7f0000300000 rw-s 00000000 00:05 7 /dev/shm/queue
7f0000300000-7f0000400000 rw-s 00000000 00:01 9 /dev/zero (deleted)
7f0000400000-7f0000500000 rw-s 00000000 00:06 4 /dev/dri/card0
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]";

    #[test]
    fn mappings_have_classes() {
        let maps: Vec<Mapping> = TEXT.lines().map(|line| Mapping::parse(line).unwrap()).collect();
        let classes: Vec<Class> = maps.iter().map(Mapping::class).collect();
        use Class::*;
        assert_eq!(
            classes,
            [PageCache, FilePrivate, Heap, Anonymous, SharedMemory, SharedMemory, Special, Stack, Special]
        );
        assert_eq!((maps[0].name.as_str(), maps[0].short_name()), ("/usr/bin/a b", "a b"));
        assert_eq!((maps[0].device, maps[4].device), (0xfd_0000_0001, 5));
        assert_eq!([maps[2].short_name(), maps[3].short_name()], ["heap", "anonymous"]);
        assert_eq!(find(&maps, 0x7f00_0020_0000), Some(&maps[4]));
        assert_eq!(find(&maps, 0x7f00_001f_ffff), Some(&maps[3]));
        assert_eq!((find(&maps, 0x7f00_0050_0000), find(&maps, 0)), (None, None));
    }

    #[test]
    fn bad_lines_are_refused() {
        for bad in ["", "1-2", "2-1 r--p 0 0:0 0", "1-2 r-p 0 0:0 0", "x-2 r--p 0 0:0 0", "1-2 r--p 0 0:0 x"]
        {
            assert_eq!(Mapping::parse(bad), None, "{bad}");
        }
    }
}
