//! `homing daemon`: sessions for cgroups, until it is told to end. It reads its configuration again on SIGHUP, ends and
//! puts everything back on SIGTERM, and tells the service manager how it is.

mod config;
mod http;
mod metrics;
mod notify;
mod rotate;
mod scope;

use crate::cmd::live::Plan;
use crate::exit::{self, Code, Result};
use anyhow::Context;
use config::Daemon;
use homing_linux::interrupts::Interrupts;
use http::{Closed, Server};
use metrics::Own;
use notify::Manager;
use scope::Running;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often signals are looked for.
const NAP: Duration = Duration::from_millis(250);

/// A daemon that was killed may have its address for a moment more, by a process that ends what it had begun: the
/// longest wait for that.
const FREED: Duration = Duration::from_secs(5);

/// A scope that does nothing for so long hangs, and the service manager is told no more that all is well.
const HANGS: Duration = Duration::from_secs(120);

/// Arguments of `homing daemon`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "SIGHUP: read the configuration again; a bad one is refused and the old one kept. SIGTERM: end, \
    and put back \
what was changed. docs/daemon.md has the file; packaging/homing.service is a systemd unit."
)]
pub struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/homing.toml")]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and end
    #[arg(long)]
    check: bool,
}

/// Runs until it is told to end.
pub fn run(args: Args) -> Result {
    // Before anything else: a signal that comes while it begins ends it in order, too.
    let caught = Interrupts::catch_for_service().context("cannot catch signals")?;
    let read = || Daemon::read(&args.config, &config::cgroups());
    let wanted = read().map_err(|error| exit::error(Code::USAGE, format!("{error:#}")))?;
    check(&wanted)?;
    if args.check {
        outln!("{}: {} scopes", args.config.display(), wanted.scopes.len());
        return Ok(Code::OK);
    }
    let manager = Manager::from_environment().context("NOTIFY_SOCKET")?;
    let mut work = Work::default();
    work.take_over(wanted)?;
    manager.ready(&work.describe());
    let mut reloads = 0;
    let mut told = Instant::now();
    while caught.count() == caught.hangups() {
        std::thread::sleep(NAP);
        if reloads != caught.hangups() {
            reloads = caught.hangups();
            manager.reloading();
            work.reload(read());
            manager.ready(&work.describe());
        }
        if manager.watchdog.is_some_and(|period| told.elapsed() >= period / 3) && work.is_well() {
            told = Instant::now();
            manager.alive();
        }
    }
    manager.stopping();
    errln!("homing daemon: ends");
    Ok(Code::OK)
}

/// Refuses policies, parameters and machines that do not exist or do not fit.
fn check(wanted: &Daemon) -> anyhow::Result<()> {
    for (name, scope) in &wanted.scopes {
        Plan::of(scope.config.clone(), &scope.machine).with_context(|| format!("scope.{name}"))?;
    }
    Ok(())
}

type Scopes = BTreeMap<String, Running>;

/// What runs.
#[derive(Default)]
struct Work {
    server: Option<(SocketAddr, Server)>,
    shown: Arc<Mutex<(Scopes, Own)>>,
    closed: Arc<Closed>,
}

impl Work {
    fn with<T>(&self, act: impl FnOnce(&mut Scopes, &mut Own) -> T) -> T {
        // Whoever panicked while it held the lock left plain values.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (scopes, own) = &mut *shown;
        act(scopes, own)
    }

    /// Does what a configuration says. Scopes that it has unchanged go on undisturbed. On an error nothing has changed.
    fn take_over(&mut self, wanted: Daemon) -> anyhow::Result<()> {
        match wanted.metrics {
            Some(address) if self.server.as_ref().is_none_or(|(at, _)| *at != address) => {
                let server =
                    self.serve(address).with_context(|| format!("metrics: cannot listen at {address}"))?;
                errln!("homing daemon: /metrics at {}", server.address());
                self.server = Some((address, server));
            }
            Some(_) => {}
            None => self.server = None,
        }
        let gone: Scopes = self.with(|scopes, _| {
            let same = |name: &String, running: &Running| wanted.scopes.get(name) == Some(&running.scope);
            let gone: Vec<String> = scopes
                .iter()
                .filter(|(name, running)| !same(name, running))
                .map(|(name, _)| name.clone())
                .collect();
            gone.into_iter().filter_map(|name| scopes.remove_entry(&name)).collect()
        });
        // All are asked before one is waited for.
        gone.values().for_each(Running::ask_to_end);
        drop(gone);
        self.with(|scopes, _| {
            for (name, scope) in wanted.scopes {
                scopes.entry(name).or_insert_with_key(|name| Running::start(name, scope));
            }
        });
        Ok(())
    }

    fn serve(&self, address: SocketAddr) -> std::io::Result<Server> {
        let begin = Instant::now();
        loop {
            let (shown, closed) = (Arc::clone(&self.shown), Arc::clone(&self.closed));
            let page = move || {
                let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                let statuses =
                    shown.0.iter().map(|(name, running)| (name.clone(), running.status())).collect();
                let own = Own {
                    late_connections: closed.late.load(Ordering::Relaxed),
                    crowding_connections: closed.crowded.load(Ordering::Relaxed),
                    ..shown.1
                };
                metrics::page(&statuses, own)
            };
            match Server::start(address, Arc::clone(&self.closed), page) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < FREED => {
                    std::thread::sleep(NAP);
                }
                started => return started,
            }
        }
    }

    fn reload(&mut self, wanted: anyhow::Result<Daemon>) {
        let result = wanted.and_then(|wanted| {
            check(&wanted)?;
            self.take_over(wanted)
        });
        let done = result.is_ok();
        match result {
            Ok(()) => errln!("homing daemon: configuration read again: {}", self.describe()),
            Err(error) => errln!("homing daemon: the old configuration is kept: {error:#}"),
        }
        self.with(|_, own| if done { own.reloads += 1 } else { own.refused_reloads += 1 });
    }

    fn describe(&self) -> String {
        let names: Vec<String> = self.with(|scopes, _| scopes.keys().cloned().collect());
        format!("{} scopes: {}", names.len(), names.join(", "))
    }

    /// True unless a scope's thread has died or hangs.
    fn is_well(&self) -> bool {
        self.with(|scopes, _| {
            scopes.values().all(|running| !running.crashed() && running.status().alive.elapsed() < HANGS)
        })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.server = None;
        let scopes = self.with(|scopes, _| std::mem::take(scopes));
        scopes.values().for_each(Running::ask_to_end);
    }
}
