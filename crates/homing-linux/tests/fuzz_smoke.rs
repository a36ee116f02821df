//! Runs the fuzz targets of what the kernel and programs' files say on random mutations of them, with the stable
//! toolchain.

#[path = "../../../fuzz/smoke.rs"]
mod smoke;
#[path = "../../../fuzz/targets/system.rs"]
mod targets;

use smoke::{corpus, smoke};

#[test]
fn proc_file() {
    let files = ["stat", "status", "maps", "numa_maps"].map(|name| format!("/proc/self/{name}"));
    // Those that this kernel has.
    let own =
        files.iter().map(String::as_str).chain(["/proc/vmstat"]).filter_map(|path| std::fs::read(path).ok());
    let wild = "7f0000000000 bind:0-4294967295 anon=18446744073709551615 N0=18446744073709551615 \
                kernelpagesize_kB=18446744073709551615\n1 (x) R 0-4294967295\n";
    smoke(targets::proc_file, corpus("proc_file", own.chain([wild.into()]).collect()));
}

#[test]
fn elf() {
    let own = std::fs::read("/bin/true").unwrap();
    // The headers alone, whose numbers say where all the rest is.
    let seeds = vec![own[..own.len().min(4096)].to_vec(), own];
    smoke(targets::elf, corpus("elf", seeds));
}
