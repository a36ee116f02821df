//! The native scheduler of IRIX: time-sharing of kernel threads (Corbalan 2003, section 5).
//!
//! With `OMP_DYNAMIC` programs take as many threads as there are processors for them, so that "the resulting processor
//! allocation should be equal to the Equipartition" (section 6.1.3); which CPU runs a thread changes with every burst.

use super::table::{Entry, Settings};
use super::{shares, Allocation, Decision, Manager, Scene};

pub(super) const ENTRY: Entry = Entry {
    name: "irix",
    source: "Corbalan 2003, section 5",
    summary: "time-sharing: as many threads as equal shares give, moved over the CPUs burst by burst",
    time_shares: true,
    build: |settings| Box::new(Irix { settings }),
};

struct Irix {
    settings: Settings,
}

impl Manager for Irix {
    fn decide(&mut self, scene: &Scene) -> Decision {
        let jobs = shares::admitted(scene, self.settings.level);
        let counts = shares::equal(&jobs, scene.layout.cpus());
        let shared = |(job, count): (&&super::JobView, usize)| (job.id, Allocation::Shared(count as u32));
        Decision { allocations: jobs.iter().zip(counts).map(shared).collect(), ..Decision::default() }
    }
}
