//! The daemon's file: what all scopes share, and a table for each scope. Unknown fields are refused.

use anyhow::{bail, ensure, Context};
use homing_core::ids::parse_bytes;
use homing_live::config::Config;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

/// A scope's journal takes at most this many bytes on disk, unless the file says otherwise.
const JOURNAL_SIZE: u64 = 64 << 20;

/// Everything that the file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Daemon {
    /// Where `/metrics` is served, if it is.
    pub metrics: Option<SocketAddr>,
    /// The scopes by name.
    pub scopes: BTreeMap<String, Scope>,
}

/// A cgroup and what to do for its processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// The cgroup's directory.
    pub cgroup: PathBuf,
    /// Settings of its sessions.
    pub config: Config,
    /// What accesses and moves cost.
    pub machine: String,
    /// Its journal, and the most bytes it may take.
    pub journal: Option<(PathBuf, u64)>,
}

/// The file's top level; scopes are read one by one.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default = "auto")]
    source: String,
    #[serde(default = "host")]
    machine: String,
    metrics: Option<String>,
    journals: Option<PathBuf>,
    journal_size: Option<String>,
    #[serde(default)]
    scope: BTreeMap<String, toml::Table>,
}

fn auto() -> String {
    "auto".into()
}

fn host() -> String {
    "host".into()
}

impl Daemon {
    /// Reads a file. Relative cgroups are below `cgroups`.
    pub fn read(path: &Path, cgroups: &Path) -> anyhow::Result<Daemon> {
        let text = crate::files::read_text(path, "configuration")?;
        Daemon::from_toml(&text, cgroups).with_context(|| path.display().to_string())
    }

    fn from_toml(text: &str, cgroups: &Path) -> anyhow::Result<Daemon> {
        let file: File = toml::from_str(text)?;
        let metrics = file.metrics.as_deref().map(address).transpose()?;
        let size = match &file.journal_size {
            None => JOURNAL_SIZE,
            Some(text) => parse_bytes(text).filter(|bytes| *bytes >= 1 << 16).with_context(|| {
                format!("journal-size: `{text}`: expected bytes such as 64M, at least 64K")
            })?,
        };
        ensure!(
            !file.scope.is_empty(),
            "no scope: expected at least one table such as [scope.web] with a cgroup"
        );
        let mut scopes = BTreeMap::new();
        for (name, table) in &file.scope {
            let journal = file.journals.as_ref().map(|folder| (folder.join(format!("{name}.journal")), size));
            let scope = scope(name, table.clone(), &file, cgroups, journal)
                .with_context(|| format!("scope.{name}"))?;
            scopes.insert(name.clone(), scope);
        }
        for (name, scope) in &scopes {
            let other =
                scopes.iter().find(|(n, other)| *n != name && scope.cgroup.starts_with(&other.cgroup));
            if let Some((other, _)) = other {
                bail!("scope.{name}: its cgroup lies in that of scope.{other}: expected scopes that share no process");
            }
        }
        Ok(Daemon { metrics, scopes })
    }
}

fn scope(
    name: &str,
    mut table: toml::Table,
    file: &File,
    cgroups: &Path,
    journal: Option<(PathBuf, u64)>,
) -> anyhow::Result<Scope> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    ensure!(name.chars().all(plain) && !name.starts_with('.'), "expected a name of letters, digits, - _ .");
    let cgroup = match table.remove("cgroup") {
        Some(toml::Value::String(path)) => PathBuf::from(path),
        Some(other) => bail!("cgroup: `{other}`: expected a path"),
        None => {
            bail!("no cgroup: expected a path below {} such as system.slice/web.service", cgroups.display())
        }
    };
    let up = cgroup.components().any(|part| matches!(part, Component::ParentDir));
    ensure!(!up && cgroup != Path::new(""), "cgroup: `{}`: expected a path without ..", cgroup.display());
    for (field, why) in [
        ("source", "all scopes have one source: it belongs at the top of the file"),
        ("bind", "the daemon binds no threads"),
    ] {
        ensure!(!table.contains_key(field), "{field}: {why}");
    }
    let mut config: Config = table.try_into()?;
    config.source.clone_from(&file.source);
    let cgroup = cgroups.join(cgroup).components().collect();
    Ok(Scope { cgroup, config, machine: file.machine.clone(), journal })
}

/// An address of this machine that others cannot reach.
fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let expected =
        "expected an address of the loopback interface with a port, such as 127.0.0.1:9188 or [::1]:9188";
    let address: SocketAddr = text.parse().ok().with_context(|| format!("metrics: `{text}`: {expected}"))?;
    ensure!(address.ip().is_loopback(), "metrics: `{text}` could be reached from outside: {expected}");
    Ok(address)
}

/// Where cgroups of version 2 are mounted.
pub fn cgroups() -> PathBuf {
    let unified = Path::new("/sys/fs/cgroup/unified");
    if unified.join("cgroup.procs").exists() {
        unified.into()
    } else {
        "/sys/fs/cgroup".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Daemon> {
        Daemon::from_toml(text, Path::new("/cg"))
    }

    #[test]
    fn scopes_have_cgroups_policies_and_limits_of_their_own() {
        let daemon = read(
            "source = \"none\"\nmetrics = \"127.0.0.1:9188\"\njournals = \"/log\"\njournal-size = \"1M\"\n\
             [scope.web]\ncgroup = \"a/web.service/\"\npolicy = \"work-function\"\nrate-limit = \"64M\"\n\
             [scope.db]\ncgroup = \"/elsewhere/db\"\ndry-run = true\n",
        )
        .unwrap();
        let (web, db) = (&daemon.scopes["web"], &daemon.scopes["db"]);
        assert_eq!(
            (web.cgroup.to_str(), db.cgroup.to_str()),
            (Some("/cg/a/web.service"), Some("/elsewhere/db"))
        );
        assert_eq!((web.config.policy.as_str(), web.config.rate_limit), ("work-function", 64 << 20));
        assert_eq!(
            (db.config.policy.as_str(), db.config.source.as_str(), db.config.dry_run),
            ("auto", "none", true)
        );
        assert_eq!(web.journal, Some(("/log/web.journal".into(), 1 << 20)));
        assert_eq!(daemon.metrics.unwrap().port(), 9188);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let scope = "[scope.web]\ncgroup = \"a\"\n";
        for (text, named) in [
            ("", "no scope"),
            ("metrix = 1\n[scope.web]\ncgroup = \"a\"", "metrix"),
            ("[scope.web]\npolicy = \"homing\"", "no cgroup"),
            ("[scope.web]\ncgroup = \"../a\"", "without .."),
            ("[scope.\"a/b\"]\ncgroup = \"a\"", "letters"),
            (&format!("{scope}polcy = \"homing\""), "polcy"),
            (&format!("{scope}source = \"none\""), "one source"),
            (&format!("{scope}bind = \"fill\""), "binds no threads"),
            (&format!("{scope}[scope.b]\ncgroup = \"a/b\""), "share no process"),
            (&format!("{scope}[scope.b]\ncgroup = \"a\""), "share no process"),
            (&format!("metrics = \"0.0.0.0:80\"\n{scope}"), "from outside"),
            (&format!("metrics = \"localhost\"\n{scope}"), "loopback"),
            (&format!("journal-size = \"7\"\n{scope}"), "64M"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
