use super::*;

#[test]
fn durations_have_units() {
    for (text, ms) in [("5ms", 5), ("10s", 10_000), ("1.5s", 1500), ("2m", 120_000), ("2000us", 2)] {
        assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
    }
    for bad in ["", "5", "ms", "-1s", "1x", "1e400s"] {
        assert_eq!(parse_duration(bad), None, "{bad}");
    }
}

#[test]
fn files_set_what_they_say_and_unknown_fields_are_refused() {
    let text = "policy = \"work-function\"\ninterval = \"250ms\"\nrate-limit = \"64M\"\n\
        bind = \"round-robin\"\nregions = [\"heap\"]";
    let config = Config::from_toml(text).unwrap();
    assert_eq!((config.policy.as_str(), config.interval.as_millis()), ("work-function", 250));
    assert_eq!((config.rate_limit, config.bind), (64 << 20, Some(Bind::RoundRobin)));
    assert_eq!(config.regions, ["heap"]);
    assert_eq!(Config::from_toml("").unwrap(), Config::default());
    assert!(Config::from_toml("polcy = \"x\"").unwrap_err().to_string().contains("polcy"));
    for bad in [
        "interval = \"soon\"",
        "interval = \"0ms\"",
        "movers = 0",
        "rate-limit = \"fast\"",
        "weight = -1.0",
        "movers = 1.5",
        "bind = \"spread\"",
        "stop-world = \"yes\"",
        "regions = \"heap\"",
        "time-budget = \"0s\"",
    ] {
        let error = Config::from_toml(&format!("dry-run = true\n{bad}")).unwrap_err().to_string();
        assert!(error.contains("expected") && error.contains("line 2"), "{bad}: {error}");
    }
}

/// Values other than the defaults, for each setting.
fn another(setting: &'static Setting) -> (Vec<String>, String) {
    let (values, toml): (&[&str], &str) = match setting.name {
        "policy" => (&["linux"], "\"linux\""),
        "source" => (&["none"], "\"none\""),
        "interval" | "time-budget" => (&["7ms"], "\"7ms\""),
        "rate-limit" => (&["1M"], "\"1M\""),
        "hot-areas" => (&["2M"], "\"2M\""),
        "engine-cpu" => (&["3"], "3"),
        "regions" => (&["heap", "stack"], "[\"heap\", \"stack\"]"),
        "bind" => (&["fill"], "\"fill\""),
        "weight" => (&["2.5"], "2.5"),
        "movers" => (&["7"], "7"),
        "set" => (&["a.b=1"], "[\"a.b=1\"]"),
        _ => (&[], "true"),
    };
    (values.iter().map(|value| (*value).to_owned()).collect(), toml.to_owned())
}

#[test]
fn every_setting_sets_a_field_of_its_own_alike_in_files_and_options() {
    let mut all = Vec::new();
    for setting in SETTINGS {
        let (values, toml) = another(setting);
        let mut given = Config::default();
        setting.set(&mut given, values).unwrap();
        assert_ne!(given, Config::default(), "{}", setting.name);
        assert_eq!(Config::from_toml(&format!("{} = {toml}", setting.name)).unwrap(), given);
        assert!(!all.contains(&given), "{}", setting.name);
        all.push(given);
    }
}

#[test]
fn every_setting_is_documented() {
    let docs = |page: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        std::fs::read_to_string(path).unwrap()
    };
    let (live, daemon) = (docs("live.md"), docs("daemon.md"));
    for setting in SETTINGS {
        let value = match setting.takes {
            Takes::Flag(_) => String::new(),
            Takes::One { value, .. } | Takes::List { value, .. } => format!(" {value}"),
        };
        let row = format!("| `--{}{value}` | {} |\n", setting.name, setting.help);
        assert!(live.contains(&row), "expected in docs/live.md, \"Settings\":\n{row}");
        assert!(daemon.contains(setting.name), "docs/daemon.md: {}", setting.name);
    }
}
