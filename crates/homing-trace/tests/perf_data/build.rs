//! Builds perf.data files byte by byte, as perf.data-file-format.txt and linux/perf_event.h describe them: of machines
//! that this project has not. What is built here was never recorded.

/// `PERF_SAMPLE_*`.
pub const IP: u64 = 1 << 0;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const ADDR: u64 = 1 << 3;
pub const CALLCHAIN: u64 = 1 << 5;
pub const CPU: u64 = 1 << 7;
pub const PERIOD: u64 = 1 << 8;
pub const RAW: u64 = 1 << 10;
pub const WEIGHT: u64 = 1 << 14;
pub const DATA_SRC: u64 = 1 << 15;
pub const IDENTIFIER: u64 = 1 << 16;
pub const PHYS_ADDR: u64 = 1 << 19;
pub const DATA_PAGE_SIZE: u64 = 1 << 22;
pub const WEIGHT_STRUCT: u64 = 1 << 24;

/// The process that all is about.
pub const PID: u32 = 4242;

/// An event.
#[derive(Clone)]
pub struct Event {
    pub name: &'static str,
    pub kind: u32,
    pub config: u64,
    pub sample_type: u64,
    pub period: u64,
    pub ids: Vec<u64>,
}

/// A sample; what its event does not hold is not written.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub address: u64,
    pub cpu: u32,
    pub period: u64,
    pub latency: u64,
    pub data_src: u64,
    pub physical: u64,
    pub page_bytes: u64,
}

/// A file that is being built.
pub struct File {
    pub events: Vec<Event>,
    pub features: Vec<(u32, Vec<u8>)>,
    pub data: Vec<u8>,
}

fn words(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|half| half.to_le_bytes()).collect()
}

/// Text as perf pads it: zeros up to a multiple of 64 bytes.
pub fn string(text: &str) -> Vec<u8> {
    let padded = (text.len() + 1).next_multiple_of(64);
    let mut bytes = halves(&[padded as u32]);
    bytes.extend(text.bytes());
    bytes.resize(4 + padded, 0);
    bytes
}

fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() + 1).next_multiple_of(8), 0);
    bytes
}

pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = halves(&[kind]);
    bytes.extend(misc.to_le_bytes());
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

impl Event {
    /// `struct perf_event_attr` of 128 bytes.
    fn attr(&self) -> Vec<u8> {
        // mmap, comm, task, mmap_data, sample_id_all, mmap2, comm_exec
        let flags: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 17 | 1 << 18 | 1 << 23 | 1 << 24;
        let mut bytes = halves(&[self.kind, 128]);
        bytes.extend(words(&[self.config, self.period, self.sample_type, 4, flags]));
        bytes.resize(128, 0);
        bytes
    }

    /// The fields that each record has at its end.
    fn trailer(&self, tid: u32, time: u64, cpu: u32) -> Vec<u8> {
        let has = |bit| self.sample_type & bit != 0;
        let mut bytes = halves(&[PID, tid]);
        bytes.extend(words(&[time]));
        if has(CPU) {
            bytes.extend(halves(&[cpu, 0]));
        }
        if has(IDENTIFIER) {
            bytes.extend(words(&[self.ids[0]]));
        }
        bytes
    }
}

impl File {
    pub fn new(events: Vec<Event>) -> File {
        File { events, features: Vec::new(), data: Vec::new() }
    }

    /// Facts that each of the files has.
    pub fn machine(&mut self, arch: &str, processor: &str, command: &[&str], nodes: &[(u32, &str)]) {
        self.features.push((3, string("example")));
        self.features.push((5, string("6.9.built")));
        self.features.push((6, string(arch)));
        self.features.push((8, string(processor)));
        let mut words = halves(&[command.len() as u32]);
        command.iter().for_each(|word| words.extend(string(word)));
        self.features.push((11, words));
        let mut topology = halves(&[nodes.len() as u32]);
        for (number, cpus) in nodes {
            topology.extend(halves(&[*number]));
            topology.extend(self::words(&[32 << 20, 30 << 20]));
            topology.extend(string(cpus));
        }
        self.features.push((14, topology));
    }

    /// Which node has which blocks of physical memory.
    pub fn memory(&mut self, block: u64, nodes: &[(u64, u64)]) {
        let mut topology = words(&[1, block, nodes.len() as u64]);
        nodes.iter().for_each(|(node, bits)| topology.extend(words(&[*node, 64, 64, *bits])));
        self.features.push((22, topology));
    }

    pub fn build_id(&mut self, path: &str, id: [u8; 20]) {
        let mut body = halves(&[u32::MAX]);
        body.extend(id);
        body.extend([0; 4]);
        body.extend(padded(path));
        self.features.push((2, record(0, 2, &body)));
    }

    fn put(&mut self, record: Vec<u8>) {
        self.data.extend(record);
    }

    /// A mapping with what the process may do in it (`rwxs`).
    pub fn mapped(&mut self, range: (u64, u64), offset: u64, rights: &str, name: &str) {
        let (start, bytes) = range;
        let mut body = halves(&[PID, PID]);
        body.extend(words(&[start, bytes, offset]));
        let inode = if name.starts_with('/') && name != "//anon" { 77 } else { 0 };
        body.extend(halves(&[8, 1]));
        body.extend(words(&[inode, 0]));
        let bits = [('r', 1), ('w', 2), ('x', 4)];
        let protection = bits.iter().filter(|(letter, _)| rights.contains(*letter)).map(|(_, bit)| bit).sum();
        body.extend(halves(&[protection, if rights.contains('s') { 1 } else { 2 }]));
        body.extend(padded(name));
        body.extend(self.events[0].trailer(PID, 10, 0));
        let misc = if rights.contains('x') { 2 } else { 2 | 1 << 13 };
        self.put(record(10, misc, &body));
    }

    pub fn named(&mut self, pid: u32, tid: u32, name: &str, executes: bool) {
        let mut body = halves(&[pid, tid]);
        body.extend(padded(name));
        body.extend(self.events[0].trailer(tid, 5, 0));
        self.put(record(3, if executes { 1 << 13 } else { 0 }, &body));
    }

    pub fn lost(&mut self, number: u64) {
        let mut body = words(&[self.events[0].ids[0], number]);
        body.extend(self.events[0].trailer(PID, 20, 0));
        self.put(record(2, 0, &body));
    }

    pub fn sample(&mut self, event: usize, sample: Sample) {
        let Event { sample_type, ids, .. } = &self.events[event];
        let mut body = Vec::new();
        let mut put = |bit: u64, bytes: Vec<u8>| {
            if sample_type & bit != 0 {
                body.extend(bytes);
            }
        };
        put(IDENTIFIER, words(&[ids[0]]));
        put(IP, words(&[0x40_1234]));
        put(TID, halves(&[sample.pid, sample.tid]));
        put(TIME, words(&[sample.time]));
        put(ADDR, words(&[sample.address]));
        put(CPU, halves(&[sample.cpu, 0]));
        put(PERIOD, words(&[sample.period]));
        put(CALLCHAIN, words(&[2, u64::MAX - 511, 0x40_1234]));
        put(RAW, [halves(&[12]), vec![7; 12]].concat());
        put(WEIGHT, words(&[sample.latency]));
        put(DATA_SRC, words(&[sample.data_src]));
        put(PHYS_ADDR, words(&[sample.physical]));
        put(DATA_PAGE_SIZE, words(&[sample.page_bytes]));
        put(WEIGHT_STRUCT, Vec::new());
        if sample_type & WEIGHT_STRUCT != 0 {
            // In the place of the weight, with the latency of the instruction behind that of the access.
            let behind = 8 * [DATA_SRC, PHYS_ADDR, DATA_PAGE_SIZE]
                .iter()
                .filter(|&&bit| sample_type & bit != 0)
                .count();
            let at = body.len() - behind;
            body.splice(at..at, words(&[sample.latency | (sample.latency + 9) << 32]));
        }
        self.put(record(9, 2, &body));
    }

    /// The whole file.
    pub fn finish(mut self) -> Vec<u8> {
        let attr_size = 128 + 16;
        let attrs_at = 104u64;
        let ids_at = attrs_at + (attr_size * self.events.len()) as u64;
        let ids: Vec<u64> = self.events.iter().flat_map(|event| event.ids.clone()).collect();
        let data_at = ids_at + 8 * ids.len() as u64;
        self.describe();
        self.features.sort_by_key(|(number, _)| *number);
        let mut bytes = b"PERFILE2".to_vec();
        let attrs = (attr_size * self.events.len()) as u64;
        bytes.extend(words(&[104, attr_size as u64, attrs_at, attrs, data_at, self.data.len() as u64, 0, 0]));
        let set = self.features.iter().fold(0u64, |all, (number, _)| all | 1 << number);
        bytes.extend(words(&[set, 0, 0, 0]));
        let mut at = ids_at;
        for event in &self.events {
            let size = 8 * event.ids.len() as u64;
            bytes.extend(event.attr());
            bytes.extend(words(&[at, size]));
            at += size;
        }
        bytes.extend(words(&ids));
        bytes.extend(&self.data);
        let mut at = (bytes.len() + 16 * self.features.len()) as u64;
        for (_, section) in &self.features {
            bytes.extend(words(&[at, section.len() as u64]));
            at += section.len() as u64;
        }
        self.features.iter().for_each(|(_, section)| bytes.extend(section));
        bytes
    }

    fn describe(&mut self) {
        let mut section = halves(&[self.events.len() as u32, 128]);
        for event in &self.events {
            section.extend(event.attr());
            section.extend(halves(&[event.ids.len() as u32]));
            section.extend(string(event.name));
            section.extend(words(&event.ids));
        }
        self.features.push((12, section));
    }
}
