//! Real jobs for `homing_sched::driver`: their processes ([`process`]), the CPUs that they get ([`place`]), and
//! what a killed scheduler leaves to be undone ([`journal`]). Nothing here decides.

pub mod journal;
pub mod place;
pub mod process;

pub use rustix::process::Signal;
