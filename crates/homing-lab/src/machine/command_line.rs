//! QEMU's arguments.

use super::{Settings, KERNEL_LINE};
use crate::observer::{Observer, CARD_BYTES};
use crate::topology::Topology;

/// The numbers by which QEMU knows its descriptors.
#[derive(Debug)]
pub(super) struct Ports {
    pub stdin: i32,
    pub stdout: i32,
    pub stderr: i32,
    pub control: i32,
    pub console: i32,
    pub initramfs: i32,
}

/// All of them.
pub(super) fn arguments(settings: &Settings<'_>, ports: &Ports, observer: Option<&Observer>) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(|&word| word.to_owned()));
    let hmat = if settings.topology.hmat.is_some() { "on" } else { "off" };
    add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    add(&["-machine", &format!("q35,hmat={hmat},vmport=off"), "-accel", "tcg,thread=multi"]);
    // Without random numbers of its own a guest that has just booted waits for some, for ten seconds on a busy host.
    add(&["-cpu", &format!("{},+rdrand", settings.cpu_model), "-rtc", "base=utc"]);
    add(&["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    add(&["-kernel", &settings.parts.kernel.to_string_lossy()]);
    add(&["-initrd", &format!("/proc/self/fd/{}", ports.initramfs)]);
    let mut kernel_line = KERNEL_LINE.to_owned();
    // The emulated counter goes at the rate of this machine's. A guest that measures it while it boots on a busy host
    // is wrong by a factor of 20 now and then.
    #[cfg(target_arch = "x86_64")]
    kernel_line.push_str(&format!(" tsc_early_khz={}", homing_linux::clock::time_stamps_khz()));
    let topology = numa(settings, &mut kernel_line);
    add(&["-append", &kernel_line]);
    add(&["-chardev", &format!("socket,id=console,fd={}", ports.console), "-serial", "chardev:console"]);
    add(&["-device", "virtio-serial-pci"]);
    let named = [
        ("stdin", ports.stdin),
        ("stdout", ports.stdout),
        ("stderr", ports.stderr),
        ("control", ports.control),
    ];
    for (name, number) in named {
        add(&["-chardev", &format!("socket,id={name},fd={number}")]);
        add(&["-device", &format!("virtserialport,chardev={name},name=homing.{name}")]);
    }
    if settings.shell {
        add(&["-chardev", "stdio,id=terminal,signal=off", "-device", "virtconsole,chardev=terminal"]);
    }
    if let Some(observer) = observer {
        add(&["-plugin", &observer.words]);
        if let Some(number) = observer.card {
            let file = format!("mem-path=/proc/self/fd/{number}");
            add(&["-object", &format!("memory-backend-file,id=card,size={CARD_BYTES},share=on,{file}")]);
            add(&["-device", "ivshmem-plain,memdev=card"]);
        }
    }
    all.extend(topology);
    all
}

/// `-smp`, `-m` and all of `-numa`.
///
/// QEMU wants node numbers without gaps, and Linux numbers nodes in the order in which the firmware's table names them.
/// A gap is made by a node that has nothing but a socket without a CPU: the table names it in its place, and Linux
/// never brings it up. QEMU fills sockets from the first on, so the CPUs of the nodes behind a gap are plugged in one
/// by one.
fn numa(settings: &Settings<'_>, kernel_line: &mut String) -> Vec<String> {
    let topology = settings.topology;
    let mut all = Vec::new();
    let slots = topology.cpu_slots();
    let sparse = slots.contains(&None);
    let per_node = topology.nodes[0].cpus;
    let alike = !sparse && topology.nodes.iter().all(|node| node.cpus == per_node || node.cpus == 0);
    // Sockets that span nodes would confuse the scheduler: one CPU a socket, where nodes differ.
    let cores = if alike { per_node } else { 1 };
    let first = slots.iter().position(Option::is_none).unwrap_or(slots.len());
    let sockets = slots.len() / cores as usize;
    all.extend(["-smp".into(), format!("{first},maxcpus={},sockets={sockets},cores={cores}", slots.len())]);
    for (socket, _) in slots.iter().enumerate().skip(first).filter(|(_, slot)| slot.is_some()) {
        let cpu = format!("{}-x86_64-cpu,socket-id={socket},core-id=0,thread-id=0", settings.cpu_model);
        all.extend(["-device".into(), cpu]);
    }
    if sparse {
        kernel_line.push_str(&format!(" possible_cpus={}", topology.cpus()));
    }
    all.extend(["-m".into(), format!("{}M", topology.memory() >> 20)]);
    let last = topology.nodes.last().map_or(0, |node| node.id);
    let (mut slot, mut nodes) = (0, topology.nodes.iter().peekable());
    for id in 0..=last {
        let mut words = format!("node,nodeid={id}");
        let node = nodes.next_if(|node| node.id == id);
        if let Some(node) = node {
            let size = node.memory >> 20;
            all.extend(["-object".into(), format!("memory-backend-ram,id=m{id},size={size}M")]);
            words.push_str(&format!(",memdev=m{id}"));
        }
        match node.map_or(1, |node| node.cpus) {
            0 if topology.hmat.is_some() => words.push_str(",initiator=0"),
            0 => {}
            cpus => words.push_str(&format!(",cpus={slot}-{}", slot + cpus - 1)),
        }
        slot += node.map_or(1, |node| node.cpus);
        all.extend(["-numa".into(), words]);
    }
    for (from, row) in topology.nodes.iter().zip(&topology.distances) {
        for (to, distance) in topology.nodes.iter().zip(row).filter(|(to, _)| to.id != from.id) {
            all.extend(["-numa".into(), format!("dist,src={},dst={},val={distance}", from.id, to.id)]);
        }
    }
    gap_distances(topology, last, &mut all);
    hmat(topology, &mut all);
    all
}

/// QEMU wants a distance for every pair, also of the nodes that fill gaps.
fn gap_distances(topology: &Topology, last: u32, all: &mut Vec<String>) {
    let real = |id: u32| topology.nodes.iter().any(|node| node.id == id);
    for (from, to) in (0..=last).flat_map(|from| (0..=last).map(move |to| (from, to))) {
        if from != to && !(real(from) && real(to)) {
            all.extend(["-numa".into(), format!("dist,src={from},dst={to},val=254")]);
        }
    }
}

/// Latencies and bandwidths from each node with CPUs to each memory.
fn hmat(topology: &Topology, all: &mut Vec<String>) {
    let Some(bandwidth) = &topology.hmat else { return };
    for (i, from) in topology.nodes.iter().enumerate().filter(|(_, node)| node.cpus > 0) {
        for (j, to) in topology.nodes.iter().enumerate() {
            let pair = format!("hmat-lb,initiator={},target={},hierarchy=memory", from.id, to.id);
            let latency = topology.latency[i][j].round() as u64;
            all.extend(["-numa".into(), format!("{pair},data-type=access-latency,latency={latency}")]);
            all.extend([
                "-numa".into(),
                format!("{pair},data-type=access-bandwidth,bandwidth={}M", bandwidth[i][j]),
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str) -> (String, String) {
        let none = std::path::PathBuf::new;
        let parts = crate::parts::Parts {
            qemu: none(),
            kernel: none(),
            modules: vec![],
            busybox: none(),
            built: none(),
        };
        let topology = Topology::load(name).unwrap();
        let settings = Settings {
            parts: &parts,
            topology: &topology,
            cpu_model: "Nehalem",
            observe: None,
            shell: false,
        };
        let mut kernel_line = String::new();
        let all = numa(&settings, &mut kernel_line).join(" ");
        (all, kernel_line)
    }

    #[test]
    fn nodes_have_memory_cpus_and_distances() {
        let (all, kernel_line) = words("2x2");
        assert!(all.starts_with("-smp 4,maxcpus=4,sockets=2,cores=2 -m 2048M"), "{all}");
        assert!(all.contains("-numa node,nodeid=1,memdev=m1,cpus=2-3"), "{all}");
        assert!(all.contains("dist,src=1,dst=0,val=21") && kernel_line.is_empty());
    }

    #[test]
    fn gaps_are_filled_by_empty_sockets() {
        let (all, kernel_line) = words("sparse");
        assert!(all.contains("-smp 2,maxcpus=7,sockets=7,cores=1"), "{all}");
        assert!(
            all.contains("node,nodeid=1,cpus=2-2") && all.contains("node,nodeid=2,memdev=m2,cpus=3-4"),
            "{all}"
        );
        assert_eq!(all.matches("-device Nehalem-x86_64-cpu,socket-id=").count(), 4);
        assert!(all.contains("dist,src=0,dst=1,val=254") && kernel_line.contains("possible_cpus=6"));
    }

    #[test]
    fn memory_only_nodes_name_their_initiator() {
        let (all, _) = words("hmat");
        assert!(all.contains("node,nodeid=2,memdev=m2,initiator=0"), "{all}");
        assert!(all.contains("initiator=1,target=2,hierarchy=memory,data-type=access-latency,latency=300"));
        assert!(!all.contains("initiator=2,"));
    }
}
