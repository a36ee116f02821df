//! One file per subcommand, and a line for each in the table below: help, arguments, and what runs.

/// Makes subcommands of a table, with help, manual pages and completion. The table of `homing` itself also says in
/// which group of the help a subcommand stands.
macro_rules! commands {
    ($($(#[$help:meta])+ $name:ident($args:ty) in $group:ident => $run:path;)+) => {
        commands! { $($(#[$help])+ $name($args) => $run;)+ }

        /// The group of each subcommand.
        pub const GROUPS: &[(&str, crate::groups::Group)] =
            &[$((stringify!($name), crate::groups::Group::$group)),+];
    };
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
pub mod cc;
pub mod compare;
pub mod daemon;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod flags;
pub mod lab;
pub mod list;
pub mod live;
pub mod machines;
pub mod manual;
pub mod monitors;
pub mod optimal;
pub mod policies;
pub mod record;
pub mod refine;
pub mod replay;
pub mod reproduce;
pub mod rset;
pub mod sched;
pub mod simulate;
pub mod study;
pub mod top;
pub mod trace;
pub mod trial;
pub mod why;

commands! {
    /// Explain a trace that comes with homing, in a few seconds
    Demo(demo::Args) in FindOutWhy => demo::run;
    /// Run a program and record every data reference of all its threads
    Record(record::Args) in FindOutWhy => record::run;
    /// Say which data is in the wrong place, what to change, and how much that brings
    Why(why::Args) in FindOutWhy => why::run;
    /// Compare two diagnoses: what a change of a program did to where its memory is
    Diff(diff::Args) in FindOutWhy => diff::run;
    /// Run a program in turns as it is and with each remedy: which is faster, by how much, how sure that is
    Try(trial::Args) in FindOutWhy => trial::run;
    /// Compare placement policies with the best any policy could do
    Compare(compare::Args) in Compare => compare::run;
    /// The cheapest placement of a trace's pages, its cost, its actions and its exact cost curve
    Optimal(optimal::Args) in Compare => optimal::run;
    /// Simulate a placement policy on a trace
    Simulate(simulate::Args) in Compare => simulate::run;
    /// Policies on a grid of traces, machines, starts and information levels; resumable
    Study(study::Args) in Compare => study::run;
    /// Several parallel jobs on one machine: processors and pages decided together
    Sched(sched::Args) in Compare => sched::run;
    /// Reproduce the papers' tables and figures beside the published numbers
    Reproduce(reproduce::Args) in Compare => reproduce::run;
    /// Run a program and bring its pages home while it runs
    Run(live::launch::Args) in Live => live::launch::run;
    /// Bring the pages of running processes home
    Attach(live::attach::Args) in Live => live::attach::run;
    /// Show where pages and threads are, process by process and node by node
    Top(top::Args) in Live => top::run;
    /// Bring the pages of cgroups home, as a service
    Daemon(daemon::Args) in Live => daemon::run;
    /// Move threads and pages of processes off a node, and keep new ones from landing there
    Evacuate(live::evacuate::Args) in Live => live::evacuate::run;
    /// Give an evacuated node back
    Restore(live::evacuate::RestoreArgs) in Live => live::evacuate::run_restore;
    /// Confine programs to sets of CPUs and memories: list, show, exec
    Rset(rset::Args) in Live => rset::run;
    /// Make the moves of an earlier live run again, or its decisions
    Replay(replay::Args) in Live => replay::run;
    /// Measure latency and bandwidth between the nodes of this machine
    Bench(bench::Args) in Live => bench::run;
    /// Probe what works here for the live engine, and find what is wrong with the machine's or a process's set-up
    Doctor(doctor::Args) in Live => doctor::run;
    /// A virtual NUMA machine with a real kernel, to run programs in
    Lab(lab::Args) in Lab => lab::run;
    /// Find the hottest lines of a program that runs there, with the machine's monitor card
    Refine(refine::Args) in Lab => refine::run;
    /// Look into traces and make new ones of them
    Trace(trace::Args) in LookInto => trace::run;
    /// List machine models, policies, monitors, topologies or managers
    List(list::Args) in LookInto => list::run;
    /// List the machine models, with one line each
    Machines(machines::Args) in LookInto => machines::run;
    /// List the placement policies, with one line each
    Policies(policies::Args) in LookInto => policies::run;
    /// List the monitors that policies can take profiles from, with one line each
    Monitors(monitors::Args) in LookInto => monitors::run;
    /// Compile and link C with clang for `record --recorder clang`
    Cc(cc::Args) in Rest => cc::run;
    /// The same for C++; also called `homing c++`
    #[command(alias = "c++")]
    Cxx(cc::Args) in Rest => cc::run_cxx;
    /// Print what to compile a program with for `record --recorder tsan` or, with --clang, clang
    Cflags(flags::CompileArgs) in Rest => flags::compile;
    /// Print what to link a program with for `record --recorder tsan` or clang
    Ldflags(flags::LinkArgs) in Rest => flags::link;
    /// Print a script that completes homing's commands in a shell
    Completions(manual::CompletionArgs) in Rest => manual::completions;
    /// Print a manual page, or write all of them
    Man(manual::ManArgs) in Rest => manual::man;
}
