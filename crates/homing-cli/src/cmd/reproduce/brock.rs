//! Brock et al. 2001, section 6: what their monitor card brought. Each program runs with its pages striped over the
//! nodes, which is reasonable as long as nothing is known, and with each page where the counts of that run say it is
//! used (Figure 10, Tables 2 and 3).
//!
//! The machine is `synfinity-4x4` with caches scaled to the programs (docs/reproduction.md).

use super::claim::Claim;
use super::exhibit::Exhibit;
use super::looped::{less, Bench, Scaled, Together};
use super::programs::{Traces, BROCK, STREAM};
use super::tally::Tally;
use super::Chosen;
use homing_core::history::ThreadsOn;
use homing_core::ids::Node;
use homing_core::policy::placement::Placement;
use homing_core::system::Run;

const THREADS: u32 = 16;
const SCALE: &[&str] = &["hierarchy.l1.size=4K", "hierarchy.l2.size=16K", "hierarchy.tlb=[{entries=16}]"];
/// One page on each node in turn: "orig" of Figure 10.
const STRIPED: Placement = Placement::Striped(1);
/// A request of 16 bytes and a response of 48 (footnote 2).
const PACKETS: f64 = 2.0;
const PACKET_BYTES: f64 = 16.0 + 48.0;

/// Names of the paper's exhibits.
pub const IDS: [&str; 5] = ["reorganised", "network-traffic", "node-traffic", "packets", "bandwidth"];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let mut all = Vec::new();
    if chosen.any(&["bandwidth"]) {
        all.push(bandwidth(traces)?);
    }
    if !chosen.any(&["reorganised", "network-traffic", "node-traffic", "packets"]) {
        return Ok(all);
    }
    let scaled = Scaled::new("synfinity-4x4", SCALE)?;
    let mut speed = Exhibit::new("reorganised")?;
    let (mut traffic, mut packets) = (Exhibit::new("network-traffic")?, Exhibit::new("packets")?);
    let mut nodes = Exhibit::new("node-traffic")?;
    for program in traces.of(BROCK) {
        let alone = Bench::with(&scaled, &traces.get(program, 1)?, &ThreadsOn::Fill, |bench| {
            let run = bench.still(&Placement::SingleNode(Node(0)))?;
            Ok(Together::of(&run).time(&run))
        })?;
        let path = traces.get(program, THREADS)?;
        let both = Bench::with(&scaled, &path, &ThreadsOn::Fill, both)?;
        let label = format!("{} ({})", program.name, program.stands_for);
        for (how, (_, tally)) in ["striped", "reorganised"].iter().zip(&both) {
            nodes.line(&format!("{label}, {how}"), "", asked_by_others(tally));
        }
        let [(striped, _), (reorganised, _)] = both;
        let together = Together::of(&striped);
        let time = |run: &Run| together.time(run);
        let ratio = time(&striped) / time(&reorganised);
        speed.line(
            &label,
            program.stands_for,
            vec![alone / time(&striped), alone / time(&reorganised), ratio],
        );
        let bandwidth = |run: &Run| together.remote(run) * PACKET_BYTES / time(run);
        let fewer = |of: &dyn Fn(&Run) -> f64| less(of(&striped), of(&reorganised));
        let values =
            vec![fewer(&|run| together.demand(run)), fewer(&|run| together.remote(run)), fewer(&bandwidth)];
        traffic.line(&label, program.stands_for, values);
        let each = |run: &Run| PACKETS * together.remote(run) / together.demand(run).max(1.0);
        packets.line(&label, program.stands_for, vec![each(&striped), each(&reorganised)]);
    }
    all.extend([speed, traffic, nodes, packets]);
    Ok(all)
}

/// A run with striped pages, and one with each page where the first one's profile says.
fn both(bench: &Bench) -> anyhow::Result<[(Run, Tally); 2]> {
    let (striped, tally, placement) = bench.profiled(&STRIPED)?;
    let around = |inner| Tally::new(inner, bench.pages(), bench.nodes());
    let reorganised = bench.watched(&placement, None, "perfect", around)?;
    Ok([(striped, tally), reorganised])
}

/// What other nodes ask of each node's memory, in per cent of all transactions.
fn asked_by_others(tally: &Tally) -> Vec<f64> {
    let (mut asked, mut all) = (vec![0; tally.nodes()], 0);
    for page in 0..tally.pages() {
        let (users, home) = (tally.users(page, |_| true), tally.home(page));
        all += users.iter().sum::<u64>();
        if let Some(home) = home {
            asked[home.index()] += users.iter().sum::<u64>() - users[home.index()];
        }
    }
    asked.into_iter().map(|count| 100.0 * count as f64 / (all as f64).max(1.0)).collect()
}

/// Requests a second of threads on one bus, against those of one thread.
fn bandwidth(traces: &Traces) -> anyhow::Result<Exhibit> {
    let scaled = Scaled::new("synfinity-4x4", SCALE)?;
    let mut exhibit = Exhibit::new("bandwidth")?;
    let rate = |threads: u32| -> anyhow::Result<f64> {
        Bench::with(&scaled, &traces.get(&STREAM, threads)?, &ThreadsOn::Fill, |bench| {
            let run = bench.still(&Placement::SingleNode(Node(0)))?;
            let together = Together::of(&run);
            Ok(together.demand(&run) / together.time(&run))
        })
    };
    let one = rate(1)?;
    exhibit.line("stream", "stream", vec![1.0, rate(2)? / one, rate(4)? / one]);
    Ok(exhibit)
}

/// What the paper says that its tables show.
pub fn claims(exhibit: &Exhibit) -> Vec<Claim> {
    let each = |claim: Claim, holds: &dyn Fn(&[f64]) -> bool| {
        exhibit.lines.iter().fold(claim, |claim, line| claim.direction(&line.label, holds(&line.ours)))
    };
    let published = |claim: Claim, column: usize| {
        exhibit.lines.iter().fold(claim, |claim, line| match line.published[column] {
            Some(published) => claim.size(&line.label, line.ours[column], published),
            None => claim,
        })
    };
    match exhibit.id.as_str() {
        "reorganised" => {
            let words = "reorganising more than doubles the performance of 3DFFT and Ocean";
            vec![each(Claim::new(words), &|row| row[2] > 2.0)]
        }
        "network-traffic" => vec![
            published(Claim::new("the reorganised version sends fewer packets"), 1),
            published(Claim::new("it asks the network for fewer bytes a second"), 2),
            published(Claim::new("it makes fewer memory transactions"), 0),
            Claim::new("the reduction of packets is larger for Ocean").above(
                exhibit,
                1,
                &["Ocean"],
                &["3DFFT"],
            ),
        ],
        "bandwidth" => vec![Claim::new(
            "performance does not scale with the number of processors on the bus [four threads below 3]",
        )
        .direction("four threads", exhibit.of("stream", 2) < 3.0)],
        "packets" => vec![
            published(Claim::new("packets a memory transaction before"), 0),
            published(Claim::new("packets a memory transaction after"), 1),
            each(Claim::new("more than one before, less than half of one after"), &|row| {
                row[0] > 1.0 && row[1] < 0.5
            }),
        ],
        _ => Vec::new(),
    }
}
