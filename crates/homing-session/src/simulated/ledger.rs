//! What a session takes of the program's time: charged once, by class, and laid on the CPUs at the end of each
//! interval.

use homing_core::time::{Elapsed, Mover, Times, Work};
use serde::Serialize;

/// Mover threads of the live engine (`--movers`).
const MOVERS: usize = 4;

/// CPU time by purpose, in nanoseconds of the session. Each charge is in one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Charges {
    /// All threads stood still, for scans and for moves with `--mover stopped`: elapsed time.
    pub holds_ns: f64,
    /// Hint faults, and their samples.
    pub faults_ns: f64,
    /// Copies of pages, by the movers.
    pub moves_ns: f64,
    /// Shoot-downs of moves, on each CPU that had the page mapped.
    pub shootdowns_ns: f64,
    /// What scans take beside the holds: the helper, or the kernel's scanner.
    pub scans_ns: f64,
    /// Process scans.
    pub process_scans_ns: f64,
    /// The engine's work on samples, questions and intervals.
    pub engine_ns: f64,
}

impl Charges {
    /// CPU time of everything but holds.
    pub fn cpu_ns(&self) -> f64 {
        let Charges {
            holds_ns: _,
            faults_ns,
            moves_ns,
            shootdowns_ns,
            scans_ns,
            process_scans_ns,
            engine_ns,
        } = self;
        faults_ns + moves_ns + shootdowns_ns + scans_ns + process_scans_ns + engine_ns
    }
}

/// What is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// Faults on a CPU in use.
    Fault(u16),
    /// Shoot-downs on a CPU in use.
    Shootdown(u16),
    /// A scan in the time of a thread of the program.
    Scanner(u16),
    /// A page copied in the time of a thread of the program.
    Copy(u16),
    /// A page copied by a mover.
    Mover,
    /// The scanning helper.
    Helper,
    /// A process scan.
    ProcessScan,
    /// Other work of the engine.
    Engine,
}

/// What the CPUs still have to do besides the program's references.
#[derive(Clone, Debug)]
struct Owed {
    /// By CPU in use, whatever else is free.
    own: Vec<f64>,
    /// Threads of the engine, which run where there is time.
    engine: f64,
    helper: f64,
    movers: f64,
}

impl Owed {
    fn new(cpus: usize) -> Owed {
        Owed { own: vec![0.0; cpus], engine: 0.0, helper: 0.0, movers: 0.0 }
    }

    fn add(&mut self, on: On, ns: f64) {
        match on {
            On::Fault(cpu) | On::Shootdown(cpu) | On::Scanner(cpu) | On::Copy(cpu) => {
                self.own[usize::from(cpu)] += ns;
            }
            On::Mover => self.movers += ns,
            On::Helper => self.helper += ns,
            On::ProcessScan | On::Engine => self.engine += ns,
        }
    }

    /// By CPU in use, if the engine's threads take theirs from the program: each thread runs on the CPU that has most
    /// time left, as a scheduler would have it. `busy` is what the CPUs do besides.
    fn shared(&self, busy: &[f64]) -> Vec<f64> {
        let mut shared = self.own.clone();
        let movers = [self.movers / MOVERS as f64; MOVERS];
        for ns in [self.engine, self.helper].into_iter().chain(movers).filter(|ns| *ns > 0.0) {
            let load = |cpu: &usize| busy[*cpu] + shared[*cpu];
            let free = (0..shared.len()).min_by(|a, b| load(a).total_cmp(&load(b)));
            if let Some(cpu) = free {
                shared[cpu] += ns;
            }
        }
        shared
    }
}

/// The books.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// False: the engine's threads run on CPUs that the program does not use.
    shares: bool,
    /// Session time of a modelled nanosecond.
    slow: f64,
    stretch: Owed,
    interval: Owed,
    charges: Charges,
    /// By how much the charges have made the program slower, in modelled nanoseconds.
    delay: f64,
}

impl Ledger {
    pub(super) fn new(cpus: usize, mover: Mover, slow: f64) -> Ledger {
        Ledger {
            shares: mover == Mover::Program,
            slow,
            stretch: Owed::new(cpus),
            interval: Owed::new(cpus),
            charges: Charges::default(),
            delay: 0.0,
        }
    }

    /// Charges some nanoseconds of the session.
    pub(super) fn charge(&mut self, on: On, ns: f64) {
        let class = match on {
            On::Fault(_) => &mut self.charges.faults_ns,
            On::Shootdown(_) => &mut self.charges.shootdowns_ns,
            On::Scanner(_) | On::Helper => &mut self.charges.scans_ns,
            On::Copy(_) | On::Mover => &mut self.charges.moves_ns,
            On::ProcessScan => &mut self.charges.process_scans_ns,
            On::Engine => &mut self.charges.engine_ns,
        };
        *class += ns;
        self.stretch.add(on, ns / self.slow);
        self.interval.add(on, ns / self.slow);
    }

    /// Charges shoot-downs of `ns` each, by what was counted on each CPU before and after.
    pub(super) fn shootdowns(&mut self, before: &[u64], after: &[u64], ns: f64) {
        for (cpu, (before, after)) in (0..).zip(before.iter().zip(after)) {
            self.charge(On::Shootdown(cpu), (after - before) as f64 * ns);
        }
    }

    /// All threads stood still so long. The caller's clock has that time already.
    pub(super) fn hold(&mut self, ns: f64) {
        self.charges.holds_ns += ns;
        self.delay += ns / self.slow;
    }

    /// The charges so far.
    pub(super) fn charges(&self) -> Charges {
        self.charges
    }

    /// By how much the closed intervals were longer for all charges, in nanoseconds of the session.
    pub(super) fn delay_ns(&self) -> f64 {
        self.delay * self.slow
    }

    /// Ends a stretch of the clock: the modelled time of its work alone, and what the charges add.
    pub(super) fn end_stretch(&mut self, times: &Times, work: &Work) -> (f64, f64) {
        let owed = std::mem::replace(&mut self.stretch, Owed::new(work.cpus.len()));
        let bare = times.elapsed(work, Mover::Own);
        let all = self.charged(times, work, &bare, &owed);
        (bare.total_ns, (all.total_ns - bare.total_ns).max(0.0))
    }

    /// Ends an interval in which the threads stood still for `still_ns`: its modelled time with all charges.
    pub(super) fn end_interval(&mut self, times: &Times, work: &Work, still_ns: f64) -> Elapsed {
        let owed = std::mem::replace(&mut self.interval, Owed::new(work.cpus.len()));
        let bare = times.elapsed(work, Mover::Own);
        let all = self.charged(times, work, &bare, &owed);
        self.delay += (all.total_ns - bare.total_ns).max(0.0);
        all.standing_still(still_ns)
    }

    fn charged(&self, times: &Times, work: &Work, bare: &Elapsed, owed: &Owed) -> Elapsed {
        let own = times.elapsed_beside(work, &owed.own);
        let own_mover_ns = own.total_ns;
        let all = match self.shares {
            true => times.elapsed_beside(work, &owed.shared(&bare.cpus_ns)),
            false => own,
        };
        Elapsed { own_mover_ns, mover_ns: owed.movers, ..all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_charge_is_in_one_class_and_on_one_cpu() {
        let all = [On::Fault(0), On::Shootdown(1), On::Scanner(1), On::Copy(0)];
        let all = all.into_iter().chain([On::Mover, On::Helper, On::ProcessScan, On::Engine]);
        let mut ledger = Ledger::new(2, Mover::Program, 4.0);
        let mut sum = 0.0;
        for (on, ns) in all.zip([1000.0, 2000.0, 4000.0, 8000.0, 16_000.0, 32_000.0, 64_000.0, 128_000.0]) {
            ledger.charge(on, ns);
            sum += ns;
            assert_eq!(ledger.charges().cpu_ns(), sum, "{on:?}");
        }
        ledger.hold(500.0);
        let charges = ledger.charges();
        assert_eq!((charges.holds_ns, charges.cpu_ns(), ledger.delay_ns()), (500.0, sum, 500.0));
        let shared = ledger.interval.shared(&[0.0, 0.0]);
        assert_eq!(shared.iter().sum::<f64>() * 4.0, sum);
        assert_eq!((ledger.interval.own[0], ledger.interval.own[1]), (9000.0 / 4.0, 6000.0 / 4.0));
    }

    #[test]
    fn the_engine_s_threads_run_where_most_time_is_left() {
        let mut owed = Owed::new(3);
        owed.add(On::Fault(2), 5.0);
        owed.add(On::Engine, 30.0);
        owed.add(On::Helper, 10.0);
        // CPU 1 has most time left, then 2; the movers take four quarters in turn.
        assert_eq!(owed.shared(&[100.0, 0.0, 10.0]), [0.0, 30.0, 15.0]);
        owed.add(On::Mover, 8.0);
        assert_eq!(owed.shared(&[100.0, 0.0, 10.0]), [0.0, 32.0, 21.0]);
        assert_eq!(owed.shared(&[0.0, 0.0, 0.0]), [30.0, 12.0, 11.0]);
    }
}
