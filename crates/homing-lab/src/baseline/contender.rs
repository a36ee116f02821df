//! The ways to place memory that compete.

use crate::kernel::Balancing;
use crate::parts::in_path;
use crate::topology::Topology;
use crate::LabError;
use std::ffi::OsString;

/// How one contender runs the program.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// Words before the program's.
    pub prefix: Vec<OsString>,
    /// The kernel's balancing meanwhile.
    pub balancing: Balancing,
    /// What runs beside the program.
    pub beside: Vec<String>,
    /// Whether the memory begins where `--start-on` says: those that begin with a placement of their own do not.
    pub starts: bool,
}

const KNOWN: [&str; 7] = ["first-touch", "interleave", "single-node", "start", "balancing", "fast", "numad"];

/// A name of the list.
pub fn known(text: &str) -> Result<String, String> {
    let found = KNOWN.iter().find(|name| **name == text);
    found.map(|name| (*name).to_owned()).ok_or_else(|| format!("expected one of {}", KNOWN.join(", ")))
}

/// Those asked for, or the usual ones, and those of `--with`.
pub fn all(
    names: &[String],
    with: &[(String, String)],
    started: bool,
    topology: &Topology,
) -> Result<Vec<Contender>, LabError> {
    let usual = ["first-touch", "interleave", "single-node", "start", "balancing", "numad"];
    let usual = usual.iter().filter(|name| **name != "start" || started).map(|name| (*name).to_owned());
    let names: Vec<String> = if names.is_empty() { usual.collect() } else { names.to_vec() };
    let mut all = names.iter().map(|name| built_in(name, topology)).collect::<Result<Vec<_>, _>>()?;
    for (name, prefix) in with {
        all.push(Contender { prefix: words(prefix)?, ..plain(name, true) });
    }
    Ok(all)
}

fn plain(name: &str, starts: bool) -> Contender {
    let (prefix, beside) = (Vec::new(), Vec::new());
    Contender { name: name.into(), prefix, balancing: Balancing::Off, beside, starts }
}

fn built_in(name: &str, topology: &Topology) -> Result<Contender, LabError> {
    let numactl = |option: String| vec!["numactl".into(), option.into()];
    Ok(match name {
        "interleave" => Contender { prefix: numactl("--interleave=all".into()), ..plain(name, false) },
        "single-node" => {
            let option = format!("--membind={}", topology.nodes[0].id);
            Contender { prefix: numactl(option), ..plain(name, false) }
        }
        "balancing" => Contender { balancing: Balancing::On, ..plain(name, true) },
        "fast" => Contender { balancing: Balancing::Fast, ..plain(name, true) },
        "numad" => Contender { beside: vec![numad()?], ..plain(name, true) },
        _ => plain(name, name == "start"),
    })
}

/// numad does nothing in the first five minutes after the start of a machine, by the monotonic clock: it runs in a time
/// namespace in which that is over.
fn numad() -> Result<String, LabError> {
    let program = |name: &str| {
        in_path(name).ok_or_else(|| LabError::Missing { what: format!("{name} is not installed") })
    };
    let (unshare, numad) = (program("unshare")?, program("numad")?);
    let line = format!("{} --time --fork --monotonic 1000 {} -i 1:5", unshare.display(), numad.display());
    Ok(format!("mkdir -p /var/log /var/run; {line}"))
}

/// The words of a prefix; a first word `homing` is this program.
fn words(prefix: &str) -> Result<Vec<OsString>, LabError> {
    let mut words: Vec<OsString> = prefix.split_whitespace().map(OsString::from).collect();
    let Some(first) = words.first_mut() else {
        let message = "--with: expected NAME=PREFIX with at least one word behind `=`";
        return Err(LabError::Usage(message.into()));
    };
    if first == "homing" {
        *first = std::env::current_exe().map_err(LabError::io("cannot find this program"))?.into();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_contenders_and_further_ones() {
        let topology = Topology::load("2x2").unwrap();
        let live = ("live".to_owned(), "homing run --policy homing --".to_owned());
        let names = ["first-touch".to_owned(), "single-node".to_owned(), "balancing".to_owned()];
        let all = all(&names, &[live], true, &topology).unwrap();
        assert_eq!(all[1].prefix, ["numactl", "--membind=0"]);
        assert_eq!((all[2].balancing, all[2].starts), (Balancing::On, true));
        assert!(!all[0].starts && all[3].starts && all[3].prefix.len() == 5);
        assert_eq!(all[3].prefix[0], std::env::current_exe().unwrap());
        assert_eq!(all[3].prefix[1..], ["run", "--policy", "homing", "--"]);
        assert!(KNOWN.iter().all(|name| known(name).is_ok()) && known("best").is_err());
    }
}
