//! One file per subcommand, and a line for each in the table below: help, arguments, and what runs.

/// Makes subcommands of a table, with help, manual pages and completion.
macro_rules! commands {
    ($($(#[$help:meta])+ $name:ident($args:ty) => $run:path;)+) => {
        /// What a subcommand is asked.
        #[derive(clap::Subcommand)]
        pub enum Command {
            $($(#[$help])+ $name(Box<$args>),)+
        }

        impl Command {
            /// Does what the subcommand says.
            pub fn run(self) -> crate::exit::Result {
                match self {
                    $(Command::$name(args) => $run(*args),)+
                }
            }
        }
    };
}

pub mod bench;
pub mod compare;
pub mod daemon;
pub mod diff;
pub mod doctor;
pub mod flags;
pub mod lab;
pub mod live;
pub mod machines;
pub mod manual;
pub mod monitors;
pub mod optimal;
pub mod policies;
pub mod record;
pub mod replay;
pub mod reproduce;
pub mod simulate;
pub mod study;
pub mod top;
pub mod trace;
pub mod why;

commands! {
    /// Bring the pages of running processes home
    Attach(live::attach::Args) => live::attach::run;
    /// Measure latency and bandwidth between the nodes of this machine
    Bench(bench::Args) => bench::run;
    /// Print a script that completes homing's commands in a shell
    Completions(manual::CompletionArgs) => manual::completions;
    /// Print a manual page, or write all of them
    Man(manual::ManArgs) => manual::man;
    /// Compare placement policies with the best any policy could do
    Compare(compare::Args) => compare::run;
    /// Print what to compile a program with for `record --recorder tsan`
    Cflags(flags::CompileArgs) => flags::compile;
    /// Bring the pages of cgroups home, as a service
    Daemon(daemon::Args) => daemon::run;
    /// Compare two diagnoses: what a change of a program did to where its memory is
    Diff(diff::Args) => diff::run;
    /// Probe what works on this machine for the live engine, and what is missing
    Doctor(doctor::Args) => doctor::run;
    /// Move threads and pages of processes off a node, and keep new ones from landing there
    Evacuate(live::evacuate::Args) => live::evacuate::run;
    /// Print what to link a program with for `record --recorder tsan`
    Ldflags(flags::LinkArgs) => flags::link;
    /// A virtual NUMA machine with a real kernel, to run programs in
    Lab(lab::Args) => lab::run;
    /// List the machine models, with one line each
    Machines(machines::Args) => machines::run;
    /// List the monitors that policies can take profiles from, with one line each
    Monitors(monitors::Args) => monitors::run;
    /// The cheapest placement of a trace's pages, its cost, its actions and its exact cost curve
    Optimal(optimal::Args) => optimal::run;
    /// Look into traces and make new ones of them
    Trace(trace::Args) => trace::run;
    /// List the placement policies, with one line each
    Policies(policies::Args) => policies::run;
    /// Give an evacuated node back
    Restore(live::evacuate::RestoreArgs) => live::evacuate::run_restore;
    /// Make the moves of an earlier live run again, or its decisions
    Replay(replay::Args) => replay::run;
    /// Run a program and bring its pages home while it runs
    Run(live::launch::Args) => live::launch::run;
    /// Reproduce the papers' tables and figures beside the published numbers
    Reproduce(reproduce::Args) => reproduce::run;
    /// Simulate a placement policy on a trace
    Simulate(simulate::Args) => simulate::run;
    /// Policies on a grid of traces, machines, starts and information levels; resumable
    Study(study::Args) => study::run;
    /// Show where pages and threads are, process by process and node by node
    Top(top::Args) => top::run;
    /// Run a program and record every data reference of all its threads
    Record(record::Args) => record::run;
    /// Say which data is in the wrong place, what to change, and how much that brings
    Why(why::Args) => why::run;
}
