//! The programs that stand for the papers', and their traces: given, or recorded by the command itself.

use crate::cmd::trace::merge_file;
use crate::exit::{self, Code};
use anyhow::Context;
use homing_core::trace::merge;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Short runs of small programs, in one order.
    Quick,
    /// What the documents show.
    Default,
    /// The same with more repeats.
    Full,
}

impl Size {
    /// Orders of the references that each exhibit is made from. The paper of Tables 1 to 7 took seven runs.
    pub fn repeats(self) -> u64 {
        match self {
            Size::Quick => 1,
            Size::Default => 3,
            Size::Full => 7,
        }
    }
}

/// One program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name in our workloads.
    pub name: &'static str,
    /// Options beside `-t`.
    options: &'static [&'static str],
    /// ... and in a quick run; none where it takes too long for one.
    quick: Option<&'static [&'static str]>,
    /// What the paper calls the one that it stands for.
    pub stands_for: &'static str,
    /// Bytes of a word of its data.
    pub word: u64,
}

const fn program(
    name: &'static str,
    options: &'static [&'static str],
    quick: Option<&'static [&'static str]>,
    stands_for: &'static str,
) -> Program {
    Program { name, options, quick, stands_for, word: 8 }
}

/// For Tikir & Hollingsworth: programs of the same access patterns as NAS's, with a multiple of
/// [`super::looped::INTERVALS`] iterations, and of 12 planes. MG and CG begin with one thread, as theirs do: section
/// 5.2.4, Figure 4, and CG's 81 % of non-local accesses before migration (Table 2) are those of pages on one board of
/// six.
pub const TIKIR: &[Program] = &[
    program("bt", &["-n", "12", "-i", "20"], None, "BT"),
    program("cg", CG_SERIAL, Some(CG_SERIAL), "CG"),
    program("ep", &["-i", "2000", "--init", "serial"], Some(&["-i", "800", "--init", "serial"]), "EP"),
    program("fft", &["-n", "16384", "-i", "20"], Some(&["-n", "8192", "-i", "20"]), "FT"),
    program("lu", &["-n", "24", "-i", "20"], Some(&["-n", "12", "-i", "20"]), "LU"),
    program("mg", MG_SERIAL, Some(MG_SERIAL), "MG"),
    program("sp", &["-n", "24", "-i", "20"], Some(&["-n", "12", "-i", "20"]), "SP"),
];
const CG_SERIAL: &[&str] = &["-n", "700", "-e", "120", "-i", "60", "--init", "serial"];
const MG_SERIAL: &[&str] = &["-i", "20", "--init", "serial"];
const CG_PARALLEL: &[&str] = &["-n", "700", "-e", "120", "-i", "60", "--init", "parallel"];

/// For Nikolopoulos et al., whose programs were tuned for first touch (section 5.1).
pub const NIKOLOPOULOS: &[Program] = &[
    program("bt", &["-n", "16", "-i", "20", "--init", "parallel"], None, "BT"),
    program(
        "sp",
        &["-n", "16", "-i", "20", "--init", "parallel"],
        Some(&["-n", "16", "-i", "20", "--init", "parallel"]),
        "SP",
    ),
    program("cg", CG_PARALLEL, Some(CG_PARALLEL), "CG"),
];

/// For Brock et al.: sweeps along the three axes of a box in slabs, as 3DFFT makes them, of which one crosses the
/// slabs; a transform of one dimension, whose first passes cross; and a solver whose grid is divided in bands of rows,
/// as Ocean's. The data are a few times what the caches of 16 processors hold, as theirs were (Table 1).
pub const BROCK: &[Program] = &[
    program("adi3", &["-i", "20"], Some(&["-i", "10"]), "3DFFT"),
    program("fft", &["-n", "16384", "-i", "20"], Some(&["-n", "16384", "-i", "5"]), "3DFFT"),
    program("sorbyr", &["-i", "40"], Some(&["-i", "20"]), "Ocean"),
];

/// For the bandwidth of one of its nodes.
pub const STREAM: Program = program("stream", &["-i", "20"], Some(&["-i", "10"]), "stream");

/// For Bolosky & Scott: about as many references as theirs (Table I, private ones counted), or a quarter of 270 million
/// for gauss. Policies that copy each page at least once cannot come near the optimum in runs that are shorter.
pub const BOLOSKY: &[Program] = &[
    program("sorbyr", &["-i", "300"], Some(&["-i", "24"]), "sorbyr"),
    program("sorbyc_inner", &["-i", "250"], Some(&["-i", "24"]), "sorbyc"),
    program("gauss", &["-i", "5"], Some(&[]), "gauss"),
    program("matmult", &["-n", "112"], Some(&["-n", "80"]), "matmult"),
    program("fft", &["-i", "14"], Some(&["-i", "3"]), "e-fft"),
    program("bsort", &["-i", "2"], Some(&[]), "bsort"),
    program("kmerge", &[], Some(&["-n", "65536"]), "kmerge"),
    program("qsort", &["-i", "3"], Some(&[]), "p-qsort"),
    Program { word: 4, ..program("life", &["-i", "112"], Some(&[]), "p-life") },
    program("cholesky", &["-i", "6"], Some(&[]), "cholesky"),
    Program { word: 4, ..program("particles", &["-i", "30"], Some(&[]), "mp3d") },
];

/// Where traces are and come from.
pub struct Traces<'a> {
    /// Folder of the traces, by program, options and threads: `cg-i80-12.homing`, and `cg-i80-12.order1.homing` in
    /// another order.
    pub folder: &'a Path,
    /// Folder of the programs.
    pub workloads: &'a Path,
    /// How long the programs run.
    pub size: Size,
    /// The order of references: 0 as recorded.
    pub order: u64,
    /// Says which program is at work.
    pub progress: ProgressBar,
}

impl Traces<'_> {
    /// The programs of a list that are to run.
    pub fn of<'p>(&self, programs: &'p [Program]) -> impl Iterator<Item = &'p Program> {
        let all = self.size != Size::Quick;
        programs.iter().filter(move |program| all || program.quick.is_some())
    }

    /// The trace of a program with `threads` threads in the order that is asked for; made if the folder does not have
    /// it.
    pub fn get(&self, program: &Program, threads: u32) -> anyhow::Result<PathBuf> {
        self.progress.inc(1);
        self.progress.set_message(format!("{} with {threads} threads", program.name));
        let quick = program.quick.filter(|_| self.size == Size::Quick);
        let options = quick.unwrap_or(program.options);
        let name = format!("{}{}-{threads}", program.name, options.concat().replace("--init", "-"));
        let recorded = self.folder.join(format!("{name}.homing"));
        if !recorded.is_file() {
            self.record(program, options, threads, &recorded)?;
        }
        if self.order == 0 {
            return Ok(recorded);
        }
        let merged = self.folder.join(format!("{name}.order{}.homing", self.order));
        if !merged.is_file() {
            self.progress.suspend(|| errln!("another order of {}", recorded.display()));
            merge_file(&recorded, &merged, merge::Options { seed: self.order, ..merge::Options::default() })?;
        }
        Ok(merged)
    }

    fn record(&self, program: &Program, options: &[&str], threads: u32, path: &Path) -> anyhow::Result<()> {
        let executable = self.workloads.join(program.name);
        if !executable.is_file() {
            let message = format!(
                "neither the trace {} nor the program {} is there: run `make workloads`, or say where they are with \
                 --traces and --workloads",
                path.display(),
                executable.display()
            );
            return Err(exit::error(Code::FAILURE, message));
        }
        crate::files::make_directory(self.folder)?;
        self.progress.suspend(|| errln!("recording {} with {threads} threads", program.name));
        // A recording that Ctrl-C has cut short is complete in itself, and no trace of the program.
        let unfinished = path.with_extension("unfinished");
        let homing = std::env::current_exe().context("cannot find this program")?;
        let output = Command::new(homing)
            .args(["record", "--recorder", "valgrind", "-o"])
            .arg(&unfinished)
            .arg("--")
            .arg(&executable)
            .args(["-t", &threads.to_string()])
            .args(options)
            .output()
            .context("cannot record")?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            let message = format!("recording {} failed: {}", executable.display(), words.trim());
            return Err(exit::error(Code::FAILURE, message));
        }
        Ok(crate::files::rename(&unfinished, path)?)
    }
}
