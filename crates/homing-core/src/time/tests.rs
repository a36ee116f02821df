use super::*;

fn times(name: &str) -> Times {
    let machine = Machine::builtin(name).unwrap();
    Times::new(&machine, machine.page_size()).unwrap()
}

/// Twelve CPUs on six boards, each with these misses to each home.
fn work(demand: impl Fn(usize, usize) -> u64) -> Work {
    let cpu = |i: usize| CpuWork {
        node: Node((i / 2) as u16),
        references: 1_000_000,
        l1_misses: 60_000,
        demand: (0..6).map(|home| demand(i / 2, home)).collect(),
        ..CpuWork::default()
    };
    Work { cpus: (0..12).map(cpu).collect(), write_backs: vec![0; 36], moves: vec![0; 36] }
}

#[test]
fn uniform_and_single_node_differ_by_contention_alone() {
    // Tikir & Hollingsworth 2008, section 5.3.3: at the same share of non-local misses (5/6), all pages on one board
    // are slower than pages on all boards, and pages where they are used are faster again.
    let times = times("sunfire-6800");
    let uniform = times.elapsed(&work(|_, _| 2_000), Mover::Own);
    let single = times.elapsed(&work(|_, home| if home == 0 { 12_000 } else { 0 }), Mover::Own);
    let local = times.elapsed(&work(|node, home| if home == node { 12_000 } else { 0 }), Mover::Own);
    assert!(single.total_ns > 1.02 * uniform.total_ns, "{} {}", single.total_ns, uniform.total_ns);
    assert!(uniform.total_ns > local.total_ns);
    assert!(single.contention_ns > 5.0 * uniform.contention_ns);
    assert!(single.memory_utilisation > 2.0 * uniform.memory_utilisation);
}

#[test]
fn time_is_never_below_what_the_busiest_memory_needs_nor_below_the_uncontended() {
    let times = times("sunfire-6800");
    for misses in [1, 1_000, 100_000, 10_000_000] {
        let elapsed = times.elapsed(&work(|_, home| if home == 0 { misses } else { 0 }), Mover::Own);
        assert!(elapsed.total_ns >= 12.0 * misses as f64 * 80.0, "{misses}");
        assert!(elapsed.contention_ns >= 0.0 && elapsed.memory_utilisation < 1.0, "{misses}: {elapsed:?}");
        // The fixed point: the slowest CPU takes just the interval's time.
        let slowest = elapsed.cpus_ns.iter().copied().fold(0.0, f64::max);
        assert!((slowest / elapsed.total_ns - 1.0).abs() < 1e-6, "{misses}: {elapsed:?}");
    }
}

#[test]
fn without_load_time_is_the_sum_of_its_parts() {
    let times = times("two-socket");
    let cpu = CpuWork {
        node: Node(0),
        references: 100,
        l1_misses: 10,
        l3_hits: 4,
        tlb_misses: 2,
        shootdowns: 1,
        demand: vec![0, 0],
    };
    let work = Work { cpus: vec![cpu], write_backs: vec![0; 4], moves: vec![0, 3, 0, 0] };
    let expected = 100.0 * (0.5 + 1.5) + 10.0 * 5.0 + 4.0 * 20.0 + 2.0 * 10.0 + 2000.0;
    let running = times.elapsed(&work, Mover::Own);
    assert!((running.total_ns - expected).abs() < 1e-6, "{running:?}");
    assert_eq!((running.moving_ns, running.mover_ns), (2000.0, 3.0 * 2024.0));
    let stopped = times.elapsed(&work, Mover::Stopped);
    assert!((stopped.total_ns - expected - 3.0 * 2024.0).abs() < 1e-6);
    assert_eq!(times.elapsed(&Work::default(), Mover::Own).total_ns, 0.0);
}

#[test]
fn requests_wait_where_most_are_served() {
    let times = times("sunfire-6800");
    let waits = |demand: &dyn Fn(usize, usize) -> u64| {
        let work = work(demand);
        times.waits(&work, times.elapsed(&work, Mover::Own).total_ns)
    };
    let single = waits(&|_, home| if home == 3 { 12_000 } else { 0 });
    assert!(single.iter().enumerate().all(|(home, wait)| home == 3 || 5.0 * wait < single[3]), "{single:?}");
    let uniform = waits(&|_, _| 2_000);
    assert!(
        uniform.iter().all(|wait| (wait / uniform[0] - 1.0).abs() < 1e-9 && *wait < single[3]),
        "{uniform:?}"
    );
    assert!(waits(&|_, _| 0).iter().all(|wait| *wait == 0.0));
}

#[test]
fn moves_take_the_time_that_their_prices_say() {
    // Pages come to node 1 from two others, by different ways: its two CPUs make the moves, all three are shot down.
    let machine = Machine::builtin("eight-node").unwrap();
    let (size, times) = (machine.page_size(), Times::new(&machine, machine.page_size()).unwrap());
    let prices = machine.time_prices(size, Mover::Program, 3).unwrap().unwrap();
    let cpu = |node, shootdowns| CpuWork {
        node: Node(node),
        references: 1000,
        shootdowns,
        demand: vec![0; 8],
        ..CpuWork::default()
    };
    let mut work =
        Work { cpus: vec![cpu(0, 0), cpu(1, 0), cpu(1, 0)], write_backs: vec![0; 64], moves: vec![0; 64] };
    let sum = |work: &Work, mover| times.elapsed(work, mover).cpus_ns.iter().sum::<f64>();
    let still = sum(&work, Mover::Program);
    (work.moves[1], work.moves[7 * 8 + 1]) = (30, 20);
    for (cpu, shootdowns) in [(0, 25), (1, 20), (2, 15)] {
        work.cpus[cpu].shootdowns = shootdowns;
    }
    let price = 30.0 * prices.costs.copy(Node(0), Node(1)) + 20.0 * prices.costs.copy(Node(7), Node(1));
    let price = (price + prices.beyond(50, 60)) * prices.unit_ns;
    assert!((sum(&work, Mover::Program) - still - price).abs() < 1e-6, "{price}");
    let (own, program) = (times.elapsed(&work, Mover::Own), times.elapsed(&work, Mover::Program));
    assert!((own.cpus_ns.iter().sum::<f64>() + own.mover_ns - still - price).abs() < 1e-6);
    assert_eq!((program.mover_ns, program.own_mover_ns), (own.mover_ns, own.total_ns));
    assert!(program.total_ns > own.total_ns && own.cpus_ns[0] == program.cpus_ns[0]);
    // All three stand still for all moves.
    let stopped = machine.time_prices(size, Mover::Stopped, 3).unwrap().unwrap().extras.standing;
    assert!((stopped * prices.unit_ns - 2.0 * times.page_move_ns()).abs() < 1e-6);
    let stopped = times.elapsed(&work, Mover::Stopped);
    assert!((stopped.total_ns - own.total_ns - own.mover_ns).abs() < 1e-6);
    assert!(
        (stopped.cpus_ns.iter().sum::<f64>() - own.cpus_ns.iter().sum::<f64>() - 3.0 * own.mover_ns).abs()
            < 1e-6
    );
}

#[test]
fn the_words_for_movers_are_read_back() {
    for mover in Mover::ALL {
        assert_eq!(mover.to_string().parse(), Ok(mover));
    }
    assert!("free".parse::<Mover>().unwrap_err().contains("program, own or stopped"));
}
