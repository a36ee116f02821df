//! The programs that stand for the papers', and their traces: given, or recorded by the command itself.

use crate::exit::{self, Code};
use anyhow::Context;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name in our workloads.
    pub name: &'static str,
    /// Options beside `-t`.
    pub options: &'static [&'static str],
    /// What the paper calls the one that it stands for.
    pub stands_for: &'static str,
    /// One thread makes all data first in the paper's program, so that first touch leaves the pages on one node.
    pub serial_start: bool,
}

const fn program(name: &'static str, options: &'static [&'static str], stands_for: &'static str) -> Program {
    Program { name, options, stands_for, serial_start: false }
}

const fn serial(program: Program) -> Program {
    Program { serial_start: true, ..program }
}

/// For Tikir & Hollingsworth: programs of the same access patterns as NAS BT, CG, FT, LU, MG and SP, with a multiple of
/// [`super::looped::INTERVALS`] iterations. MG begins with one thread (section 5.2.4, Figure 4), and CG's 81 % of
/// non-local accesses before migration (Table 2) are those of pages on one board of six.
pub const TIKIR: &[Program] = &[
    program("adi3", &["-i", "20"], "BT"),
    serial(program("cg", &["-n", "700", "-e", "120", "-i", "60"], "CG")),
    program("fft", &["-n", "16384", "-i", "20"], "FT"),
    program("sorbyc", &["-i", "40"], "LU"),
    serial(program("mg", &["-i", "20"], "MG")),
    program("adi3", &["-e", "2", "-i", "20"], "SP"),
];

/// For Nikolopoulos et al.
pub const NIKOLOPOULOS: &[Program] = &[
    program("adi3", &["-n", "16", "-i", "20"], "BT"),
    program("adi3", &["-n", "16", "-e", "2", "-i", "20"], "SP"),
    program("cg", &["-n", "700", "-e", "120", "-i", "60"], "CG"),
];

/// For Brock et al.: sweeps along the three axes of a box in slabs, as 3DFFT makes them, of which one crosses the
/// slabs; a transform of one dimension, whose first passes cross; and a solver whose grid is divided in bands of rows,
/// as Ocean's. The data are a few times what the caches of 16 processors hold, as theirs were (Table 1).
pub const BROCK: &[Program] = &[
    program("adi3", &["-i", "20"], "3DFFT"),
    program("fft", &["-n", "16384", "-i", "20"], "3DFFT"),
    program("sorbyr", &["-i", "40"], "Ocean"),
];

/// For Bolosky & Scott: about as many references as theirs (Table I, private ones counted), or a quarter of 270 million
/// for gauss. Policies that copy each page at least once cannot come near the optimum in runs that are shorter.
pub const BOLOSKY: &[Program] = &[
    program("sorbyr", &["-i", "300"], "sorbyr"),
    program("sorbyc", &["-i", "250"], "sorbyc"),
    program("gauss", &["-i", "5"], "gauss"),
    program("matmult", &["-n", "112"], "matmult"),
    program("fft", &["-i", "14"], "e-fft"),
    program("bsort", &["-i", "2"], "bsort"),
    program("kmerge", &[], "kmerge"),
    program("qsort", &["-i", "3"], "p-qsort"),
    program("life", &["-i", "112"], "p-life"),
    program("cholesky", &["-i", "6"], "cholesky"),
    program("particles", &["-i", "30"], "mp3d"),
];

/// Where traces are and come from.
pub struct Traces<'a> {
    /// Folder of the traces, by program, options and threads: `cg-i80-12.homing`.
    pub folder: &'a Path,
    /// Folder of the programs.
    pub workloads: &'a Path,
    /// Says which program is at work.
    pub progress: ProgressBar,
}

impl Traces<'_> {
    /// The trace of a program with `threads` threads; recorded if the folder does not have it.
    pub fn get(&self, program: &Program, threads: u32) -> anyhow::Result<PathBuf> {
        self.progress.inc(1);
        self.progress.set_message(format!("{} with {threads} threads", program.name));
        let options = program.options.concat();
        let path = self.folder.join(format!("{}{options}-{threads}.homing", program.name));
        if path.is_file() {
            return Ok(path);
        }
        let executable = self.workloads.join(program.name);
        if !executable.is_file() {
            let message = format!(
                "neither the trace {} nor the program {} is there: run `make workloads`, or say where they are with \
                --traces \
                 and --workloads",
                path.display(),
                executable.display()
            );
            return Err(exit::error(Code::FAILURE, message));
        }
        std::fs::create_dir_all(self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
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
            .args(program.options)
            .output()
            .context("cannot record")?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            let message = format!("recording {} failed: {}", executable.display(), words.trim());
            return Err(exit::error(Code::FAILURE, message));
        }
        std::fs::rename(&unfinished, &path)
            .with_context(|| format!("cannot rename {} to {}", unfinished.display(), path.display()))?;
        Ok(path)
    }
}
