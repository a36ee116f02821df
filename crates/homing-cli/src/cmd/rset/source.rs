//! Where sets come from: the machine, and the file of named sets.

use crate::exit::{self, Code};
use crate::names;
use anyhow::Context;
use homing_core::ids::Node;
use homing_linux::proc::Proc;
use homing_live::host::Host;
use homing_live::rset::own_file;
use homing_pipeline::model::load_machine;
use homing_rset::{Expr, Global, ResourceSet, Sets};
use std::path::{Path, PathBuf};

/// The machine that sets are on, unless it is this one.
#[derive(clap::Args, Clone, Debug)]
pub struct OnMachine {
    /// A machine model instead of this machine: a name from `homing machines` or a TOML file
    #[arg(long, short, value_name = "MACHINE", value_parser = names::MACHINE, hide_possible_values = true)]
    pub machine: Option<String>,
    /// The machine of an XML file of hwloc (`lstopo FILE.xml`) instead of this one
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub hwloc: Option<PathBuf>,
}

/// Named sets.
#[derive(clap::Args, Clone, Debug)]
pub struct FromFile {
    /// File of named sets [default: ~/.config/homing/rsets.toml, where it is]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// A machine and named sets.
pub struct Source {
    /// All resources of the machine.
    pub global: Global,
    /// Named sets.
    pub sets: Sets,
    host: Option<Host>,
    /// What the distances between nodes are.
    pub distances: &'static str,
}

impl Source {
    /// This machine, or another one.
    pub fn of(machine: &OnMachine, file: &FromFile) -> anyhow::Result<Source> {
        let Some(path) = &machine.hwloc else { return Source::new(machine.machine.as_deref(), file) };
        let text = crate::files::read_text(path, "topology of hwloc")?;
        let global = Global::from_hwloc(&text)
            .map_err(|why| exit::error(Code::USAGE, format!("{}: {why}", path.display())))?;
        Ok(Source {
            global,
            sets: sets(file.file.as_deref())?,
            host: None,
            distances: "as the file has them",
        })
    }

    /// This machine, or a model of one.
    pub fn new(machine: Option<&str>, file: &FromFile) -> anyhow::Result<Source> {
        let sets = sets(file.file.as_deref())?;
        let Some(name) = machine.filter(|name| *name != "host") else {
            let host = Host::read(Path::new("/sys"))
                .map_err(|error| exit::error(Code::UNSUPPORTED, error.to_string()))?;
            let global =
                homing_live::rset::global(&host, &Proc::default()).context("cannot tell what may be used")?;
            return Ok(Source { global, sets, host: Some(host), distances: "as the firmware has them" });
        };
        let model = load_machine(name)?;
        let costs =
            model.costs(model.page_size()).map_err(|error| exit::error(Code::USAGE, error.to_string()))?;
        Ok(Source {
            global: Global::of_model(&model, &costs),
            sets,
            host: None,
            distances: "as the model's accesses cost",
        })
    }

    /// Reads an expression.
    pub fn expression(text: &str) -> anyhow::Result<Expr> {
        Expr::parse(text).map_err(|error| exit::error(Code::USAGE, error.to_string()))
    }

    /// The set of an expression.
    pub fn set(&self, expr: &Expr) -> anyhow::Result<ResourceSet> {
        self.sets.on(expr, &self.global).map_err(|error| exit::error(Code::USAGE, error.to_string()))
    }

    /// Free and total bytes of a node; none for a model.
    pub fn memory(&self, id: Node) -> Option<(u64, u64)> {
        let host = self.host.as_ref()?;
        host.memory(host.node(u32::from(id.0))?)
    }

    /// Free and total bytes of a set; none for a model.
    pub fn memory_of(&self, set: &ResourceSet) -> Option<(u64, u64)> {
        let each = set.memories.iter().map(|&node| self.memory(node));
        each.reduce(|all, one| Some((all?.0 + one?.0, all?.1 + one?.1))).unwrap_or(Some((0, 0)))
    }
}

/// The sets of a file, or of the user's own where there is one.
fn sets(file: Option<&Path>) -> anyhow::Result<Sets> {
    let path = match (file, own_file()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(own)) if own.exists() => own,
        (None, _) => return Ok(Sets::default()),
    };
    let text = crate::files::read_text(&path, "file of sets")?;
    let sets = Sets::from_toml(&text, &path.display().to_string());
    sets.map_err(|error| exit::error(Code::USAGE, error.to_string()))
}
