//! The files that are built: a program of four threads on each of three machines, and one that perf has not decoded.

use super::build::*;

/// What served an access, in the words of `union perf_mem_data_src`.
mod served {
    const LOAD: u64 = 2;
    const STORE: u64 = 4;
    const HIT: u64 = 2 << 5;
    const MISS: u64 = 4 << 5;
    const RAM: u64 = 0xd << 33;
    const REMOTE: u64 = 1 << 37;

    /// Intel: the old levels and the new.
    pub const LOCAL: u64 = LOAD | HIT | 0x80 << 5 | RAM | 2 << 19;
    pub const OTHER: u64 = LOAD | HIT | 0x100 << 5 | RAM | REMOTE | 2 << 19;
    pub const L1: u64 = LOAD | HIT | 0x08 << 5 | 1 << 33;
    pub const STORED: u64 = STORE | HIT | 0x08 << 5 | 1 << 33;
    /// AMD: the new levels alone.
    pub const LOCAL_IBS: u64 = LOAD | HIT | RAM;
    pub const OTHER_IBS: u64 = LOAD | HIT | RAM | REMOTE | 2 << 43;
    /// A line that another node's cache had modified.
    pub const HITM: u64 = LOAD | HIT | 0xb << 33 | REMOTE | 2 << 43 | 0x10 << 19;
    /// Arm: a miss of the last cache says no more than that.
    pub const BEYOND_SPE: u64 = LOAD | MISS | 0x40 << 5;
    pub const OTHER_SPE: u64 = LOAD | MISS | 0x40 << 5 | REMOTE | 0x400 << 5;
    /// An instruction that is no access.
    pub const NONE: u64 = 1;
}

/// Where the array is that one thread made, and its pages.
pub const ARRAY: u64 = 0x7f10_0000_0000;
pub const PAGES: u64 = 64;
/// ... and the file's own data, which two nodes use.
pub const STATIC: u64 = 0x60_4000;

const BUILD_ID: [u8; 20] = [0xab; 20];

fn event(name: &'static str, kind: u32, sample_type: u64, ids: &[u64]) -> Event {
    Event { name, kind, config: 0x1cd, sample_type, period: 2003, ids: ids.to_vec() }
}

fn process(file: &mut File) {
    file.build_id("/opt/solver/bin/solver", BUILD_ID);
    file.named(PID, PID, "solver", true);
    file.mapped((0x40_0000, 0x3000), 0, "rx", "/opt/solver/bin/solver");
    file.mapped((0x60_3000, 0x4000), 0x3000, "rw", "/opt/solver/bin/solver");
    file.mapped((0x90_0000, 0x2_1000), 0, "rw", "[heap]");
    file.mapped((ARRAY, PAGES << 12), 0, "rw", "//anon");
    file.mapped((0x7f20_0000_0000, 0x1c_0000), 0, "rx", "/usr/lib/libm.so.6");
    file.mapped((0x7ffc_0000_0000, 0x2_1000), 0, "rw", "[stack]");
    (1..4).for_each(|thread| file.named(PID, PID + thread, "solver", false));
}

/// What no machine has in common: latencies, sources, the place in physical memory.
struct Sampled {
    cpus: [u32; 4],
    local: u64,
    other: u64,
    physical: u64,
    page_bytes: u64,
}

/// Each of four threads uses its quarter of the array, all of which is on the first node; threads 2 and 3 are on
/// another.
fn array(file: &mut File, event: usize, sampled: &Sampled) {
    for page in 0..PAGES {
        for turn in 0..6 {
            let thread = page * 4 / PAGES;
            let far = thread >= 2;
            file.sample(
                event,
                Sample {
                    pid: PID,
                    tid: PID + thread as u32,
                    time: 1_000_000 * (1 + page * 6 + turn),
                    address: ARRAY + (page << 12) + turn * 64,
                    cpu: sampled.cpus[thread as usize],
                    period: 2003,
                    latency: if far { 310 + turn } else { 180 + turn },
                    data_src: if far { sampled.other } else { sampled.local },
                    physical: if sampled.physical == 0 { 0 } else { sampled.physical + (page << 12) },
                    page_bytes: sampled.page_bytes,
                },
            );
        }
    }
}

/// Samples that are no use: without an address, of the kernel, of another process, of a near cache, after a loss.
fn others(file: &mut File, event: usize, hit: u64, beyond: u64) {
    let one = Sample { pid: PID, tid: PID, time: 2_000_000, address: ARRAY, ..Sample::default() };
    for turn in 0..5 {
        file.sample(event, Sample { address: 0, data_src: served::NONE, ..one });
        file.sample(event, Sample { data_src: hit, latency: 5 + turn, period: 2003, ..one });
    }
    for _ in 0..3 {
        file.sample(event, Sample { address: 0xffff_8880_0000_1000, data_src: beyond, ..one });
    }
    file.named(99, 99, "other", false);
    file.sample(event, Sample { pid: 99, tid: 99, address: 0x1_0000, data_src: beyond, ..one });
    file.lost(7);
}

/// Intel, two nodes: loads above a latency, and stores, each an event.
pub fn pebs() -> Vec<u8> {
    let holds = IDENTIFIER | IP | TID | TIME | ADDR | CPU | PERIOD | CALLCHAIN | WEIGHT_STRUCT | DATA_SRC;
    let mut file = File::new(vec![
        event("cpu/mem-loads,ldlat=30/P", 4, holds, &[11, 12]),
        event("cpu/mem-stores/P", 4, holds, &[21, 22]),
    ]);
    let command = ["perf", "mem", "record", "./solver"];
    file.machine("x86_64", "Intel(R) Xeon(R) (built)", &command, &[(0, "0-7"), (1, "8-15")]);
    process(&mut file);
    let sampled = Sampled {
        cpus: [0, 1, 8, 9],
        local: served::LOCAL,
        other: served::OTHER,
        physical: 0,
        page_bytes: 0,
    };
    array(&mut file, 0, &sampled);
    let store = Sample { pid: PID, tid: PID, time: 3_000_000, address: ARRAY, ..Sample::default() };
    (0..4).for_each(|_| file.sample(1, Sample { data_src: served::STORED, ..store }));
    others(&mut file, 0, served::L1, served::LOCAL);
    file.finish()
}

/// AMD, `perf c2c record`: physical addresses, four nodes of which two have the threads, lines that were modified.
pub fn ibs() -> Vec<u8> {
    let holds = IP | TID | TIME | ADDR | CPU | PERIOD | RAW | WEIGHT | DATA_SRC | PHYS_ADDR | DATA_PAGE_SIZE;
    let mut file = File::new(vec![event("ibs_op//", 11, holds, &[31])]);
    let nodes = [(0, "0-3"), (1, "4-7"), (2, "8-11"), (3, "12-15")];
    let command = ["perf", "c2c", "record", "-a", "--", "./solver"];
    file.machine("x86_64", "AMD EPYC (built)", &command, &nodes);
    file.memory(1 << 30, &[(0, 0b11), (1, 0b1100), (2, 0b11_0000), (3, 0b1100_0000)]);
    process(&mut file);
    let sampled = Sampled {
        cpus: [0, 1, 12, 13],
        local: served::LOCAL_IBS,
        other: served::OTHER_IBS,
        physical: 1 << 20,
        page_bytes: 4096,
    };
    array(&mut file, 0, &sampled);
    for turn in 0..40u64 {
        let far = turn % 2 == 1;
        let sample = Sample {
            pid: PID,
            tid: PID + if far { 3 } else { 0 },
            time: 5_000_000 + turn,
            address: STATIC + 8 * (turn % 2),
            cpu: if far { 13 } else { 0 },
            period: 2003,
            latency: 500,
            data_src: served::HITM,
            physical: 5 << 30,
            page_bytes: 4096,
        };
        file.sample(0, sample);
    }
    others(&mut file, 0, served::L1, served::LOCAL_IBS);
    file.finish()
}

/// Arm, after `perf inject --itrace`: a node with the number 2, a miss of the last cache says whether it went far.
pub fn spe() -> Vec<u8> {
    let holds = IP | TID | TIME | ADDR | CPU | PERIOD | WEIGHT | DATA_SRC;
    let mut file = File::new(vec![event("memory", 9, holds, &[41])]);
    let command = ["perf", "record", "-e", "arm_spe/ts_enable=1,load_filter=1,min_latency=30/", "./solver"];
    file.machine("aarch64", "Neoverse-N1 (built)", &command, &[(0, "0-63"), (2, "64-127")]);
    process(&mut file);
    let sampled = Sampled {
        cpus: [0, 1, 64, 65],
        local: served::BEYOND_SPE,
        other: served::OTHER_SPE,
        physical: 0,
        page_bytes: 0,
    };
    array(&mut file, 0, &sampled);
    others(&mut file, 0, served::L1, served::BEYOND_SPE);
    file.finish()
}

/// Arm, as `perf record` left it.
pub fn spe_raw() -> Vec<u8> {
    let mut file = File::new(vec![event("arm_spe_0/ts_enable=1/", 9, IP | TID | TIME | CPU, &[51])]);
    let command = ["perf", "record", "-e", "arm_spe//", "./solver"];
    file.machine("aarch64", "Neoverse-N1 (built)", &command, &[(0, "0-63"), (1, "64-127")]);
    process(&mut file);
    let words = |all: &[u64]| -> Vec<u8> { all.iter().flat_map(|word| word.to_le_bytes()).collect() };
    file.data.extend(record(70, 0, &words(&[4, 9, 0, 0])));
    file.data.extend(record(71, 0, &words(&[64, 0, 0, 0, 0])));
    file.data.extend([0x99; 64]);
    file.finish()
}
