//! Resource sets for the program itself: a set, memory laid out over it, and threads that are bound to its CPUs.

use crate::status::{Status, Verdict};
use homing_core::ids::{Cpu, Node};
use homing_linux::environment::open_regular;
use homing_linux::placed::{page, From, Placed};
use homing_linux::policy;
use homing_linux::proc::{Proc, Tid};
use homing_linux::seccomp;
use homing_live::host::Host;
use homing_live::rset::{bind, global, own_file};
use homing_rset::{Expr, Global, Memory, Pages, Policies, ResourceSet, Sets, Threads};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::{mpsc, Mutex, PoisonError, RwLock};

/// A set on this machine.
#[derive(Debug)]
pub struct Rset {
    host: Host,
    global: Global,
    /// What it has; nothing beyond what the process may use.
    pub set: ResourceSet,
}

/// What was allocated and not freed yet, by address.
static ALLOCATED: Mutex<Option<HashMap<usize, Placed>>> = Mutex::new(None);

fn allocated<T>(work: impl FnOnce(&mut HashMap<usize, Placed>) -> T) -> T {
    let mut all = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner);
    work(all.get_or_insert_with(HashMap::new))
}

fn bad(what: impl ToString) -> Verdict {
    Verdict::new(Status::BadArgument, what.to_string())
}

fn failed(what: impl ToString) -> Verdict {
    Verdict::new(Status::Failed, what.to_string())
}

/// The user's named sets.
fn sets() -> Result<Sets, Verdict> {
    let Some(path) = own_file() else { return Ok(Sets::default()) };
    let name = path.display().to_string();
    let read = open_regular(OpenOptions::new().read(true), 0, &path).and_then(std::io::read_to_string);
    let text = match read {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Sets::default()),
        Err(error) => return Err(failed(format!("{name}: {error}"))),
    };
    Sets::from_toml(&text, &name).map_err(bad)
}

impl Rset {
    /// The set of an expression, which may use the user's named sets.
    pub fn open(text: &str) -> Result<Rset, Verdict> {
        let expr = Expr::parse(text).map_err(bad)?;
        let host = Host::read(Path::new("/sys")).map_err(failed)?;
        let global = global(&host, &Proc::default()).map_err(failed)?;
        let set = sets()?.on(&expr, &global).map_err(bad)?;
        global.refuse_outside(&set).map_err(|why| bad(format!("{text}: {why}")))?;
        // What filters refuse otherwise is said by whichever call fails.
        if let Some(call) = seccomp::probe(&seccomp::PLACEMENT).map_err(failed)?.kills {
            return Err(failed(format!("the seccomp filter of this process kills it for {call}")));
        }
        Ok(Rset { host, global, set })
    }

    /// Free and total bytes of its memory, as far as the kernel says.
    pub fn memory(&self) -> (u64, u64) {
        let of = |node: &Node| self.host.memory(self.host.node(u32::from(node.0))?);
        let each = self.set.memories.iter().filter_map(of);
        each.fold((0, 0), |(free, total), (more_free, more)| (free + more_free, total + more))
    }

    /// Binds the calling thread to its CPUs and its memory.
    pub fn bind_thread(&self) -> Result<(), Verdict> {
        bind(&self.set, Memory::Float).map_err(|error| failed(format!("the kernel does not bind: {error}")))
    }

    /// Memory that is laid out over it. `stride` of 0: a page.
    pub fn allocate(
        &self,
        bytes: usize,
        memory: Memory,
        stride: usize,
    ) -> Result<*mut libc::c_void, Verdict> {
        let policies = Policies {
            memory: Some(memory),
            stride: (stride > 0).then_some(stride as u64),
            ..Policies::default()
        };
        policies.check().map_err(bad)?;
        let placed = Placed::new(bytes).map_err(|error| failed(format!("{bytes} bytes: {error}")))?;
        let here = policy::this_cpu().and_then(|cpu| self.global.node_of(Cpu(cpu as u16))).unwrap_or(Node(0));
        let pieces = policies.pieces(&self.set, placed.bytes(), page(), here).map_err(bad)?;
        for (range, pages) in pieces {
            let (from, nodes) = match pages {
                Pages::Within(nodes) => (From::Only, nodes),
                Pages::On(node) => (From::Rather, vec![node]),
                Pages::InTurn(nodes) => (From::Turns, nodes),
            };
            let nodes: Vec<u32> = nodes.iter().map(|node| u32::from(node.0)).collect();
            placed
                .bind(range, from, &nodes)
                .map_err(|error| failed(format!("the kernel does not bind: {error}")))?;
        }
        let start = placed.start();
        allocated(|all| all.insert(start as usize, placed));
        Ok(start)
    }

    /// Runs `work` once on each of `count` threads (0: as many as the layout has places), bound to the CPUs of the
    /// layout, and waits for all. `work` is given the thread's number. Either all of them run or none.
    pub fn team(&self, threads: Threads, count: usize, work: impl Fn(u32) + Sync) -> Result<(), Verdict> {
        let layout = threads.layout(&self.set, &self.global);
        if layout.is_empty() {
            return Err(bad("the set has no CPUs for threads"));
        }
        let count = if count == 0 { layout.len() } else { count };
        // Closed until it is known that all threads are there and bound.
        let open = RwLock::new(false);
        let mut gate = open.write().unwrap_or_else(PoisonError::into_inner);
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut begun = Ok(());
            for index in 0..count {
                let (cpu, tell, open, work) = (layout[index % layout.len()], tell.clone(), &open, &work);
                let thread = move || {
                    // Nobody listens where another thread could not begin.
                    let _ = tell.send(policy::set_affinity(Tid(0), &[u32::from(cpu.0)]));
                    drop(tell);
                    if *open.read().unwrap_or_else(PoisonError::into_inner) {
                        work(index as u32);
                    }
                };
                begun = std::thread::Builder::new().spawn_scoped(scope, thread).map(drop);
                if begun.is_err() {
                    break;
                }
            }
            drop(tell);
            let bound = begun.and_then(|()| told.iter().collect::<Result<Vec<()>, _>>());
            *gate = bound.is_ok();
            drop(gate);
            bound.map(drop).map_err(|error| failed(format!("{count} threads on {}: {error}", self.words())))
        })
    }

    fn words(&self) -> String {
        self.global.words(&self.set)
    }
}

/// Gives memory back.
pub fn free(start: *mut libc::c_void) -> Result<(), Verdict> {
    let found = allocated(|all| all.remove(&(start as usize)));
    found.map(drop).ok_or_else(|| bad(format!("no memory of homing_rset_alloc begins at {start:p}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_team_runs_once_on_each_thread_where_the_layout_says() {
        let Ok(rset) = Rset::open("all") else { return };
        let layout = Threads::Fill.layout(&rset.set, &rset.global);
        let runs: Vec<AtomicU32> = (0..5).map(|_| AtomicU32::new(0)).collect();
        let work = |thread: u32| {
            let cpu = layout[thread as usize % layout.len()];
            assert_eq!(policy::affinity(Tid(0)).unwrap(), [u32::from(cpu.0)]);
            runs[thread as usize].fetch_add(1, Ordering::Relaxed);
        };
        rset.team(Threads::Fill, 5, work).unwrap();
        assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1), "{runs:?}");
    }

    #[test]
    fn memory_is_given_back_once() {
        let Ok(rset) = Rset::open("all") else { return };
        match rset.allocate(100_000, Memory::Striped, 8192) {
            Ok(start) => {
                free(start).unwrap();
                assert_eq!(free(start).unwrap_err().status, Status::BadArgument);
            }
            // Containers may forbid it.
            Err(verdict) => assert_eq!(verdict.status, Status::Failed),
        }
        assert_eq!(rset.allocate(100_000, Memory::Local, 8192).unwrap_err().status, Status::BadArgument);
        assert_eq!(rset.allocate(100_000, Memory::Striped, 100).unwrap_err().status, Status::BadArgument);
    }

    #[test]
    fn wrong_sets_are_refused_with_a_reason() {
        for (text, said) in
            [("cpu:x", "no number and no range"), ("all - all", "empty"), ("cpu:65535", "there is no CPU")]
        {
            match Rset::open(text) {
                Err(verdict) if verdict.status == Status::BadArgument => {
                    assert!(verdict.reason.contains(said), "{}", verdict.reason);
                }
                other => assert!(other.is_err_and(|verdict| verdict.status == Status::Failed), "{text}"),
            }
        }
    }
}
