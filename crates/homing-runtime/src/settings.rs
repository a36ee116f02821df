//! What `homing_start` is given.

use crate::status::{Status, Verdict};
use homing_live::config::{Bind, Config};

/// The settings of the live engine, without those that need another process.
///
/// # Errors
/// BadArgument if the text is no TOML, has an unknown setting or a value that makes no sense, or asks for what a
/// process cannot do to itself.
pub fn read(text: &str) -> Result<Config, Verdict> {
    let bad = |reason: String| Verdict::new(Status::BadArgument, reason);
    let config = Config::from_toml(text)
        .map_err(|error| bad(format!("settings: {}", error.to_string().trim_end())))?;
    let alone =
        |name: &str| bad(format!("settings: {name}: no program can do that to itself; use `homing run`"));
    if config.stop_world {
        return Err(alone("stop-world"));
    }
    if config.bind.is_some_and(|how| how != Bind::None) {
        return Err(alone("bind"));
    }
    // Huge pages are split by calls in the name of the program's threads, for which those are stopped.
    Ok(Config { keep_huge_pages: true, ..config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_live_engine_and_what_needs_another_process_is_refused() {
        let config = read("interval = \"50ms\"\ndry-run = true").unwrap();
        assert!(config.dry_run && config.interval.as_millis() == 50 && config.keep_huge_pages);
        for (text, why) in [
            ("intervall = 1", "unknown field `intervall`"),
            ("interval = \"0\"", "expected a duration"),
            ("stop-world = true", "homing run"),
            ("bind = \"fill\"", "homing run"),
        ] {
            let verdict = read(text).unwrap_err();
            assert_eq!(verdict.status, Status::BadArgument);
            assert!(verdict.reason.contains(why), "{}", verdict.reason);
        }
    }
}
