//! Words to the service manager: `sd_notify(3)`, datagrams to the socket that `NOTIFY_SOCKET` names.

use homing_linux::clock;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// The service manager, if one listens.
pub struct Manager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that all is well.
    pub watchdog: Option<Duration>,
}

impl Manager {
    /// As the environment says.
    ///
    /// # Errors
    /// If it names a socket that cannot be used.
    pub fn from_environment() -> io::Result<Manager> {
        let variable = |name: &str| std::env::var(name).ok();
        let for_us = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let period = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok()).map(Duration::from_micros);
        Manager::new(std::env::var_os("NOTIFY_SOCKET"), period.filter(|period| for_us && !period.is_zero()))
    }

    fn new(name: Option<OsString>, watchdog: Option<Duration>) -> io::Result<Manager> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(Manager { to: None, watchdog: None });
        };
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(Path::new(&name))?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold the daemon up.
        socket.set_nonblocking(true)?;
        Ok(Manager { to: Some((socket, address)), watchdog })
    }

    fn say(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            if let Err(error) = socket.send_to_addr(text.as_bytes(), address) {
                errln!("homing daemon: the service manager could not be told `{}`: {error}", text.trim_end());
            }
        }
    }

    /// The daemon works.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// It reads its configuration again; [`Manager::ready`] ends that.
    pub fn reloading(&self) {
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={}\n", clock::monotonic().as_micros()));
    }

    /// It ends.
    pub fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    /// All is well.
    pub fn alive(&self) {
        self.say("WATCHDOG=1\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_what_is_said_at_paths_and_abstract_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("homing-test-{}", std::process::id());
        let listeners = [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                OsString::from(format!("@{name}")),
            ),
        ];
        for (listener, name) in listeners {
            let manager = Manager::new(Some(name), Some(Duration::from_secs(1))).unwrap();
            manager.ready("two scopes");
            manager.reloading();
            let mut buffer = [0; 200];
            let count = listener.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"READY=1\nSTATUS=two scopes\n");
            let count = listener.recv(&mut buffer).unwrap();
            assert!(buffer[..count].starts_with(b"RELOADING=1\nMONOTONIC_USEC="));
        }
        let nobody = Manager::new(None, None).unwrap();
        nobody.alive();
        assert!(nobody.watchdog.is_none());
    }
}
