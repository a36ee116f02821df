//! Scenarios: what happens, and what the session asks for after each step. They stand in `scenarios.txt`; `world.rs`
//! has the words. A new one needs no code.

use super::world::{policy_of, World};

const SCENARIOS: &str = include_str!("scenarios.txt");

/// Fewer are a sign of a damaged file.
const AT_LEAST: usize = 30;

/// A scenario: its name, the options of its session, and steps: what happens, and what the session asks for.
struct Scenario {
    name: &'static str,
    options: &'static str,
    steps: Vec<(&'static str, &'static str)>,
}

fn scenarios() -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let lines = SCENARIOS.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//"));
    for line in lines {
        if let Some(name) = line.strip_prefix("# ") {
            let (name, options) = name.split_once(" | ").unwrap_or((name, ""));
            scenarios.push(Scenario { name, options, steps: Vec::new() });
        } else {
            let (command, expected) = line.split_once("=>").unwrap_or((line, ""));
            let scenario = scenarios.last_mut().expect("a name before the first step");
            scenario.steps.push((command.trim(), expected.trim()));
        }
    }
    scenarios
}

#[test]
fn sessions_do_what_the_scenarios_say() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= AT_LEAST, "{} scenarios", scenarios.len());
    let mut differences = Vec::new();
    for Scenario { name, options, steps } in scenarios {
        let mut policy = policy_of(options);
        let mut world = World::new(options, &mut *policy);
        for (number, (command, expected)) in steps.into_iter().enumerate() {
            let asked = world.say(command);
            if asked != expected {
                let step = number + 1;
                differences
                    .push(format!("{name}: step {step}, {command}\n  => {asked}\n  expected {expected}"));
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
