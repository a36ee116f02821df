//! Equipartition (McCann, Vaswani & Zahorjan 1993; Corbalan 2003, section 5): "an equal allocation among running jobs",
//! bounded by what each asks for; "re-allocations are done at each job arrival and completion"; "a fixed
//! multiprogramming level to control the system load".

use super::table::{Entry, Settings};
use super::{shares, Decision, Manager, Scene};

pub(super) const ENTRY: Entry = Entry {
    name: "equipartition",
    source: "McCann 1993; Corbalan 2003, section 5",
    summary: "equal shares of the processors, dealt anew when a job comes or goes",
    time_shares: false,
    build: |settings| Box::new(Equipartition { settings }),
};

struct Equipartition {
    settings: Settings,
}

impl Manager for Equipartition {
    fn decide(&mut self, scene: &Scene) -> Decision {
        let jobs = shares::admitted(scene, self.settings.level);
        let counts = shares::equal(&jobs, scene.layout.cpus());
        Decision { allocations: shares::mapped(scene, &jobs, &counts, false), ..Decision::default() }
    }
}
