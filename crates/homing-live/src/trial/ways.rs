//! The ways to run a program without a change of its source, and which of them this machine can carry out.

use super::run::bind;
use crate::host::Host;
use crate::inside;
use crate::rset;
use crate::source::{best, Places, SOURCES};
use homing_core::ids::Node;
use homing_linux::proc::{Proc, ProcError};
use homing_linux::tunables::Tunables;
use homing_linux::{libraries, program};
use homing_rset::{ranges, Global};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The program as it is.
pub const AS_IT_IS: &str = "as it is";
/// The program with some data placed by name.
pub const PLACEMENT: &str = "placement";
/// The other program.
pub const AGAINST: &str = "against";

/// A way to run the program.
#[derive(Clone, Debug)]
pub struct Way {
    /// Its name.
    pub name: String,
    /// What to type or set for it.
    pub how: String,
    /// The program to execute, and its arguments.
    pub words: Vec<OsString>,
    /// What the program is called.
    pub called: OsString,
    /// What is set up for the run.
    pub set_up: SetUp,
}

/// What is set up for a run, and taken back behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// Nothing.
    Nothing,
    /// Pages on these nodes in turn.
    Interleave(Vec<u32>),
    /// Threads on the CPUs of a node, and memory there as far as it has room.
    OneNode {
        /// The kernel's number.
        node: u32,
        /// Its CPUs.
        cpus: Vec<u32>,
    },
    /// A tunable of the kernel has this value.
    Tunable(PathBuf, String),
    /// No transparent huge pages.
    SmallPages,
    /// These variables in the program's environment.
    Environment(Vec<(OsString, OsString)>),
}

/// A way that is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: &'static str,
    /// Why, and what would have to be there.
    pub why: String,
}

/// A kind of way: its name, and how it is made here.
struct Kind {
    name: &'static str,
    /// Only where there are several nodes.
    places: bool,
    make: fn(&Here, &Asked<'_>) -> Result<Way, String>,
}

/// All kinds, in the order in which they are shown.
const KINDS: &[Kind] = &[
    Kind { name: "interleave", places: true, make: interleave },
    Kind { name: "one-node", places: true, make: one_node },
    Kind { name: "bind-threads", places: true, make: bind_threads },
    Kind { name: "balancing", places: true, make: balancing },
    Kind { name: "homing-run", places: true, make: homing_run },
    Kind { name: "homing-runtime", places: true, make: homing_runtime },
    Kind { name: "small-pages", places: false, make: small_pages },
];

/// The names of all ways besides the program as it is and the other program. The last two are no kinds: as it is once
/// more, and none at all.
pub const NAMES: [&str; 9] = [
    "interleave",
    "one-node",
    "bind-threads",
    "balancing",
    "homing-run",
    "homing-runtime",
    "small-pages",
    "again",
    "none",
];

/// What is asked for.
pub struct Asked<'a> {
    /// The program's file.
    pub program: &'a Path,
    /// The words of the command.
    pub words: &'a [OsString],
    /// The other command: its program's file and its words.
    pub against: Option<(&'a Path, &'a [OsString])>,
    /// A placement of some data by name: what to type for it, and the variables that the program is started with.
    pub placed: Option<(String, &'a [(OsString, OsString)])>,
    /// Ways by name; all that can be, if there is none.
    pub only: &'a [String],
}

impl Asked<'_> {
    /// The command, as it is but for this.
    fn with(&self, name: &str, how: impl Into<String>, set_up: SetUp) -> Way {
        let words = program_and_words(self.program, self.words);
        Way { name: name.into(), how: how.into(), words, called: self.words[0].clone(), set_up }
    }

    /// The command behind one of this program.
    fn behind(&self, here: &Here, name: &str, words: &[&str]) -> Way {
        let all = std::iter::once(here.homing.clone().into_os_string())
            .chain(words.iter().map(OsString::from))
            .chain(std::iter::once("--".into()))
            .chain(self.words.iter().cloned());
        let shown: Vec<String> =
            words.iter().filter(|word| **word != "--quiet").map(|word| quoted(word)).collect();
        let how = format!("homing {} -- PROGRAM", shown.join(" "));
        let (words, called) = (all.collect(), here.homing.clone().into_os_string());
        Way { name: name.into(), how, words, called, set_up: SetUp::Nothing }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_:,./=".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

fn program_and_words(program: &Path, words: &[OsString]) -> Vec<OsString> {
    std::iter::once(program.as_os_str().to_owned()).chain(words[1..].iter().cloned()).collect()
}

/// This machine.
pub struct Here {
    /// Its nodes.
    pub host: Host,
    /// What this process may use of it.
    pub global: Global,
    /// Where the kernel's files are.
    pub places: Places,
    /// This program.
    pub homing: PathBuf,
}

impl Here {
    /// Reads it.
    ///
    /// # Errors
    /// If /proc does not say what this process may use.
    pub fn of(host: Host, proc: &Proc, places: Places, homing: PathBuf) -> Result<Here, ProcError> {
        let global = rset::global(&host, proc)?;
        Ok(Here { host, global, places, homing })
    }

    /// Nodes whose memory this process may use, the kernel's numbers.
    pub fn memories(&self) -> Vec<u32> {
        self.global.all().memories.iter().map(|node| u32::from(node.0)).collect()
    }

    /// Whether it can matter where pages are.
    pub fn has_places(&self) -> bool {
        self.memories().len() > 1
    }

    fn cpus_of(&self, id: u32) -> Vec<u32> {
        let Some(node) = self.host.node(id) else { return Vec::new() };
        let usable = |cpu: &u32| self.global.all().cpus.iter().any(|usable| u32::from(usable.0) == *cpu);
        self.host.cpus_of(node).iter().copied().filter(usable).collect()
    }
}

/// The ways that are to be tried, the program as it is first, and those that this machine does not carry out.
pub fn ways(here: &Here, asked: &Asked<'_>) -> (Vec<Way>, Vec<LeftOut>) {
    let wanted = |name: &str| asked.only.iter().any(|only| only == name);
    let mut ways = vec![asked.with(AS_IT_IS, "PROGRAM", SetUp::Nothing)];
    let mut left_out = Vec::new();
    if wanted("again") {
        ways.push(asked.with("again", "PROGRAM", SetUp::Nothing));
    }
    if let Some((how, environment)) = &asked.placed {
        ways.push(asked.with(PLACEMENT, how, SetUp::Environment(environment.to_vec())));
    }
    for kind in KINDS.iter().filter(|kind| asked.only.is_empty() || wanted(kind.name)) {
        let made = match kind.places && !here.has_places() {
            true => Err("there is one memory node: no placement can differ".into()),
            false => (kind.make)(here, asked).and_then(possible),
        };
        match made {
            Ok(way) => ways.push(way),
            Err(why) => left_out.push(LeftOut { name: kind.name, why }),
        }
    }
    if let Some((program, words)) = asked.against {
        let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        ways.push(Way {
            name: AGAINST.into(),
            how: shown.join(" "),
            words: program_and_words(program, words),
            called: words[0].clone(),
            set_up: SetUp::Nothing,
        });
    }
    (ways, left_out)
}

/// The way, if the kernel takes what it sets up.
fn possible(way: Way) -> Result<Way, String> {
    let bound = std::thread::scope(|scope| scope.spawn(|| bind(&way.set_up)).join());
    match bound {
        Ok(Ok(())) => Ok(way),
        Ok(Err(error)) => Err(refused(&error)),
        Err(_) => Err("it cannot be tried: a bug".into()),
    }
}

fn refused(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; a container may forbid it (docker: --cap-add SYS_NICE, or its seccomp profile)"
        }
        _ => "",
    };
    format!("the kernel refuses it: {error}{advice}")
}

fn interleave(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    let nodes = here.memories();
    let how = format!("numactl --interleave={} -- PROGRAM", ranges(nodes.iter().map(|&node| node as u16)));
    Ok(asked.with("interleave", how, SetUp::Interleave(nodes)))
}

/// That with the most free memory of those that have most CPUs.
fn one_node(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    let free = |id: u32| {
        let memory = here.host.node(id).and_then(|node: Node| here.host.memory(node));
        memory.map_or(0, |(free, _)| free)
    };
    let of = |id: u32| (here.cpus_of(id).len(), free(id), std::cmp::Reverse(id));
    let node = here.memories().into_iter().max_by_key(|&id| of(id)).ok_or("there is no memory node")?;
    let cpus = here.cpus_of(node);
    if cpus.is_empty() {
        return Err("no node has both CPUs and memory that this process may use".into());
    }
    let how = format!("numactl --cpunodebind={node} --preferred={node} -- PROGRAM");
    Ok(asked.with("one-node", how, SetUp::OneNode { node, cpus }))
}

fn bind_threads(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    libraries::find(rset::LIBRARY).map_err(|error| error.to_string())?;
    refuse_static(asked)?;
    let set = here.global.words(here.global.all());
    Ok(asked.behind(here, "bind-threads", &["rset", "exec", &set, "--threads", "round-robin"]))
}

fn refuse_static(asked: &Asked<'_>) -> Result<(), String> {
    match program::is_static(asked.program) {
        true => Err("the program is linked statically: no library gets into it".into()),
        false => Ok(()),
    }
}

/// The bit of the switch that stands for balancing between equal nodes (`NUMA_BALANCING_NORMAL`).
const NORMAL: u32 = 1;

/// The kernel's own balancing the other way round.
fn balancing(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    let switch = &here.places.hint_faults.switch;
    let shown = switch.display();
    let now = fs::read_to_string(switch).map_err(|_| "the kernel is built without CONFIG_NUMA_BALANCING")?;
    let now: u32 = now.trim().parse().map_err(|_| format!("{shown} holds no number"))?;
    let (name, then) = match now & NORMAL {
        0 => ("balancing on", now | NORMAL),
        _ => ("balancing off", now & !NORMAL),
    };
    // Whether it can be set is only known once it was.
    let value = then.to_string();
    let set = Tunables::begin(&here.places.state).and_then(|mut tunables| tunables.set(switch, &value));
    set.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => format!("needs root: {shown} cannot be written"),
        _ => format!("{shown} cannot be set to {value}: {error}"),
    })?;
    let how = format!("echo {value} > {shown} (for the whole machine)");
    Ok(asked.with(name, how, SetUp::Tunable(switch.clone(), value)))
}

fn homing_run(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    if best(&here.places).name == "none" {
        let missing = SOURCES.iter().find_map(|source| (source.missing)(&here.places)).unwrap_or_default();
        return Err(format!("nothing here says which thread uses which page (homing doctor): {missing}"));
    }
    Ok(asked.behind(here, "homing-run", &["run", "--quiet"]))
}

/// The OpenMP runtimes that `homing run --runtime` gets into.
const OPENMP: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];

fn homing_runtime(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    if !program::needs(asked.program, &OPENMP) {
        return Err("the program is not linked with an OpenMP runtime".into());
    }
    libraries::find(inside::LIBRARY).map_err(|error| error.to_string())?;
    Ok(asked.behind(here, "homing-runtime", &["run", "--runtime", "--quiet"]))
}

/// Where the kernel says whether there are huge pages.
const HUGE: &str = "kernel/mm/transparent_hugepage/enabled";

fn small_pages(here: &Here, asked: &Asked<'_>) -> Result<Way, String> {
    let enabled = here.places.sys.join(HUGE);
    match fs::read_to_string(&enabled) {
        Ok(text) if text.contains("[never]") => Err("transparent huge pages are off already".into()),
        Ok(_) => {
            let how = "prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) before the program starts";
            Ok(asked.with("small-pages", how, SetUp::SmallPages))
        }
        Err(_) => Err("the kernel has no transparent huge pages".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::snapshot;
    use homing_linux::hint_faults::Paths;
    use tempfile::TempDir;

    /// A machine with this many nodes of two CPUs, numbered 0, 2, 4, ..., and this in the files of the kernel.
    fn here(nodes: u32, switch: Option<&str>, huge: Option<&str>) -> (TempDir, TempDir, Here) {
        let (sys, host) = snapshot(nodes);
        let other = tempfile::tempdir().unwrap();
        let file = |name: &str| other.path().join(name);
        let me = std::process::id();
        let task = other.path().join(format!("proc/{me}/task/{me}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("status"), "Name:\tx\n").unwrap();
        if let Some(value) = switch {
            fs::write(file("numa_balancing"), format!("{value}\n")).unwrap();
        }
        if let Some(huge) = huge {
            fs::create_dir_all(sys.path().join(HUGE).parent().unwrap()).unwrap();
            fs::write(sys.path().join(HUGE), huge).unwrap();
        }
        let places = Places {
            sys: sys.path().to_owned(),
            state: file("tunables"),
            hint_faults: Paths { switch: file("numa_balancing"), tunables: file("debug") },
        };
        let here =
            Here::of(host, &Proc::at(other.path().join("proc")), places, "/bin/homing".into()).unwrap();
        (sys, other, here)
    }

    fn words() -> [OsString; 2] {
        ["true".into(), "-x".into()]
    }

    fn with<'a>(words: &'a [OsString], only: &'a [String]) -> Asked<'a> {
        Asked { program: Path::new("/bin/true"), words, against: None, placed: None, only }
    }

    #[test]
    fn where_there_is_one_node_no_way_that_places_memory_is_left() {
        let (_sys, _other, here) = here(1, Some("0"), Some("always [madvise] never"));
        let (words, other) = (words(), ["false".into(), "-y".into()]);
        let asked = Asked { against: Some((Path::new("/bin/false"), &other)), ..with(&words, &[]) };
        let (ways, left_out) = ways(&here, &asked);
        let names: Vec<_> = ways.iter().map(|way| way.name.as_str()).collect();
        assert_eq!(names, [AS_IT_IS, "small-pages", AGAINST]);
        assert_eq!(
            (&ways[0].words[0], &ways[0].called, &ways[0].words[1]),
            (&"/bin/true".into(), &words[0], &words[1])
        );
        assert_eq!((ways[2].how.as_str(), &ways[2].words[1]), ("false -y", &other[1]));
        assert_eq!(left_out.len(), 6);
        assert!(left_out.iter().all(|left| left.why.contains("one memory node")), "{left_out:?}");
    }

    #[test]
    fn ways_name_the_nodes_that_are_there() {
        let (_sys, _other, here) = here(3, Some("0"), None);
        let words = words();
        let asked = with(&words, &[]);
        let way = interleave(&here, &asked).unwrap();
        assert_eq!(way.how, "numactl --interleave=0,2,4 -- PROGRAM");
        assert_eq!(way.set_up, SetUp::Interleave(vec![0, 2, 4]));
        // All have as many CPUs and as much free memory: the first.
        let way = one_node(&here, &asked).unwrap();
        assert_eq!(way.set_up, SetUp::OneNode { node: 0, cpus: vec![0, 1] });
        assert_eq!(way.how, "numactl --cpunodebind=0 --preferred=0 -- PROGRAM");
        let run = asked.behind(&here, "x", &["rset", "exec", "node:0 & !cpu:1", "--quiet"]);
        assert_eq!(run.how, "homing rset exec 'node:0 & !cpu:1' -- PROGRAM");
        assert_eq!(run.words[4..], ["--quiet", "--", "true", "-x"]);
        assert!(homing_runtime(&here, &asked).unwrap_err().contains("OpenMP"));
    }

    #[test]
    fn balancing_is_tried_the_other_way_round_and_put_back() {
        let words = words();
        for (now, name, then) in
            [("0", "balancing on", "1"), ("1", "balancing off", "0"), ("2", "balancing on", "3")]
        {
            let (_sys, _other, here) = here(2, Some(now), None);
            let way = balancing(&here, &with(&words, &[])).unwrap();
            let switch = here.places.hint_faults.switch.clone();
            assert_eq!(
                (way.name.as_str(), &way.set_up),
                (name, &SetUp::Tunable(switch.clone(), then.into()))
            );
            assert_eq!(fs::read_to_string(&switch).unwrap().trim(), now, "it was only tried");
        }
        let (_sys, _other, here) = here(2, None, None);
        assert!(balancing(&here, &with(&words, &[])).unwrap_err().contains("CONFIG_NUMA_BALANCING"));
    }

    #[test]
    fn only_the_ways_that_are_asked_for_are_made() {
        let words = words();
        for (huge, left) in [
            (Some("always madvise [never]"), Some("off already")),
            (None, Some("no transparent huge pages")),
            (Some("[always] madvise never"), None),
        ] {
            let (_sys, _other, here) = here(2, None, huge);
            let only = ["small-pages".to_owned(), "again".to_owned()];
            let (ways, left_out) = ways(&here, &with(&words, &only));
            assert_eq!(ways.len(), if left.is_some() { 2 } else { 3 });
            assert_eq!(
                left_out.first().map(|out| left.is_some_and(|left| out.why.contains(left))),
                left.map(|_| true)
            );
        }
    }

    #[test]
    fn a_placement_is_the_program_with_an_environment() {
        let (_sys, _other, here) = here(1, None, None);
        let (words, only) = (words(), ["none".to_owned()]);
        let variables = [("LD_PRELOAD".into(), "/lib/x.so".into())];
        let placed = Some(("homing run --place x=blocks -- PROGRAM".to_owned(), &variables[..]));
        let (ways, left_out) = ways(&here, &Asked { placed, ..with(&words, &only) });
        assert_eq!((ways.len(), ways[1].name.as_str(), left_out.len()), (2, PLACEMENT, 0));
        assert_eq!((&ways[1].words, &ways[1].called), (&ways[0].words, &ways[0].called));
        assert_eq!(ways[1].set_up, SetUp::Environment(variables.to_vec()));
    }

    #[test]
    fn every_way_has_a_name_that_can_be_asked_for() {
        let kinds: Vec<_> = KINDS.iter().map(|kind| kind.name).chain(["again", "none"]).collect();
        assert_eq!(kinds, NAMES);
    }
}
