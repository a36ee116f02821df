//! Tests of what sessions and the kernel are charged, and of what that does to the program's time.

use super::costs::{Costs as Prices, COSTS};
use super::tests::{homes, on_machine, quarters, trace, PAGES, SLOW};
use super::*;
use homing_core::policy::balancing::Tunables;
use homing_core::policy::settings::Settings as Parameters;
use homing_core::policy::table;
use homing_core::time::Elapsed;

/// A table in which nothing costs anything.
const FREE: Prices = Prices {
    hint_fault: 0.0,
    perf_sample: 0.0,
    hold_thread: 0.0,
    mark_page: 0.0,
    helper: 0.0,
    look: 0.0,
    look_thread: 0.0,
    look_mapping: 0.0,
    sample: 0.0,
    question: 0.0,
    interval: 0.0,
};

/// Pages that one thread made and four use.
fn session(monitor: &str, prices: &Prices, mover: Mover) -> (Run, Live) {
    on_machine(
        &trace(|_| 0),
        "",
        |setup| setup.mover = mover,
        |setup| {
            let policy =
                table::find("work-function").unwrap().make(setup.costs, false, &Parameters::default());
            let choice: Choice = monitor.parse().unwrap();
            run_session(setup, &*policy, Kernel::of(&choice.values), prices, &mut ()).unwrap()
        },
    )
}

fn total(run: &Run, part: impl Fn(&Elapsed) -> f64) -> f64 {
    run.modelled.as_ref().map(part).unwrap()
}

#[test]
fn each_event_is_charged_once_in_its_class() {
    let (run, live) = session(SLOW, &COSTS, Mover::Program);
    let (charges, account) = (live.charges, &live.account);
    assert_eq!(charges.holds_ns, live.stopped.0 as f64 * 1000.0);
    assert!(live.stopped > Micros(live.scans * 8000), "more than the ticks: {:?}", live.stopped);
    let seen = (account.total.local + account.total.remote) as f64;
    // Pages that were made after the first scan are seen as well: none here.
    assert_eq!(charges.faults_ns, live.hint_faults as f64 * 1500.0);
    let machine = homing_core::machine::Machine::builtin("four-socket").unwrap();
    let copy = Times::new(&machine, PageSize::KIB4).unwrap().page_move_ns();
    assert!((charges.moves_ns / (run.account.moves as f64 * copy) - 1.0).abs() < 1e-9 && copy > 1000.0);
    assert_eq!(charges.scans_ns, live.scans as f64 * 20e6);
    // The first process scan finds neither threads nor mappings.
    let others = (charges.process_scans_ns - 500_000.0) / (500_000.0 + 4.0 * 9000.0 + 1000.0);
    assert!(others >= 10.0 && others == others.round(), "{others}");
    assert!(charges.engine_ns >= seen * 224.0 + 17_000.0 * 90.0, "{charges:?}");
    assert!(charges.shootdowns_ns > 0.0 && charges.shootdowns_ns <= 48.0 * 4.0 * 2000.0, "{charges:?}");
}

#[test]
fn with_all_prices_nought_only_holds_are_left_and_the_program_takes_its_own_time() {
    let (free, unheld) = session("hint-faults:slow=7000,stop=0,move=0.001", &FREE, Mover::Own);
    // The shoot-downs are the machine's.
    assert!(unheld.charges.cpu_ns() - unheld.charges.shootdowns_ns < 200.0, "{:?}", unheld.charges);
    let (_, live) = session(SLOW, &FREE, Mover::Own);
    // The flush of the one mapping is the machine's as well.
    assert_eq!(live.charges.holds_ns, (live.scans * 8002) as f64 * 1000.0);
    let (_, charged) = session(SLOW, &COSTS, Mover::Program);
    assert!(charged.delay_ns > live.delay_ns && live.delay_ns >= live.charges.holds_ns);
    assert!(total(&free, |elapsed| elapsed.total_ns) > 0.0 && unheld.delay_ns < 1e6, "{}", unheld.delay_ns);
}

#[test]
fn the_engine_takes_the_program_s_time_only_where_no_cpu_is_free() {
    let (shared, with) = session(SLOW, &COSTS, Mover::Program);
    let (_, free) = session(SLOW, &COSTS, Mover::Own);
    // Helper, engine and movers are charged alike, and what they take of the program is the difference.
    assert!(with.charges.scans_ns > 0.0 && free.charges.scans_ns > 0.0);
    let others = free.charges.holds_ns + free.charges.faults_ns + free.charges.shootdowns_ns;
    assert!(free.delay_ns >= free.charges.holds_ns && free.delay_ns <= others * 1.001, "{free:?}");
    assert!(with.delay_ns > free.delay_ns + 10e6, "{} {}", with.delay_ns, free.delay_ns);
    let (all, own) = (total(&shared, |e| e.total_ns), total(&shared, |e| e.own_mover_ns));
    assert!(all > own, "{all} {own}");
}

#[test]
fn the_clock_and_the_modelled_time_of_a_charged_session_agree() {
    let dear = Prices { hint_fault: 1e6, sample: 1e5, ..COSTS };
    let (run, live) = session(SLOW, &dear, Mover::Program);
    let (clock, modelled) =
        (live.curve.last().unwrap().ms as f64 * 1e6, 7000.0 * total(&run, |e| e.total_ns));
    assert!((modelled / clock - 1.0).abs() < 0.05, "{modelled} {clock}");
    assert!(live.delay_ns > live.hint_faults as f64 * 1e6 / 4.0, "faults of four threads at once: {live:?}");
}

#[test]
fn the_kernel_brings_pages_home_in_the_program_s_time() {
    let bytes = trace(|_| 0);
    let (run, balanced) =
        on_machine(&bytes, "", |_| {}, |setup| balance(setup, 7000.0, Some(Tunables::DEFAULT)).unwrap());
    let (still, unbalanced) = on_machine(&bytes, "", |_| {}, |setup| balance(setup, 7000.0, None).unwrap());
    assert_eq!((still.account.moves, unbalanced.scans, unbalanced.charges), (0, 0, Charges::default()));
    assert!(total(&run, |e| e.total_ns) < 0.9 * total(&still, |e| e.total_ns));
    assert_eq!(homes(&run), quarters([0, 1, 2, 3]));
    // The first scan comes after a second; a page of which nothing is known moves at its first hint fault.
    assert!((48..=2 * PAGES).contains(&run.account.moves), "{}", run.account.moves);
    assert!((4..=12).contains(&balanced.scans) && balanced.hint_faults >= PAGES, "{balanced:?}");
    let Charges { holds_ns, faults_ns, moves_ns, shootdowns_ns, scans_ns, process_scans_ns, engine_ns } =
        balanced.charges;
    assert_eq!((holds_ns, process_scans_ns, engine_ns), (0.0, 0.0, 0.0));
    assert_eq!(faults_ns, balanced.hint_faults as f64 * 1000.0);
    assert!(moves_ns > 48.0 * 1000.0 && shootdowns_ns > 0.0 && scans_ns > 0.0);
    assert!(balanced.delay_ns > 0.0 && balanced.delay_ns <= balanced.charges.cpu_ns(), "{balanced:?}");
}
