//! What of a diagnosis a placement by name can do: `--plan FILE`, and the commands for it.

use crate::cmd::live::place::{file, quoted};
use crate::tables::things;
use homing_core::report::advice::in_words;
use homing_core::report::why::{percent, AreaReport, WhyReport};
use homing_core::why::remedy::Remedy;
use homing_linux::visible;
use homing_live::place::{Entry, Placement};
use homing_record::sites::Name;

/// Most data that one command places; a file has room for more.
const IN_A_COMMAND: usize = 3;

/// The placement that does what a remedy does, if one can. `id`: the kernel's number of a node.
fn placement(remedy: Remedy, id: impl Fn(u16) -> u32) -> Option<Placement> {
    match remedy {
        Remedy::Spread => Some(Placement::Interleave(Vec::new())),
        Remedy::InitialiseByUser => Some(Placement::Blocks),
        Remedy::Bind(node) => Some(Placement::Node(id(node))),
        _ => None,
    }
}

/// The placement of an area; none if its remedy is none, or no data can be placed by its name.
fn entry(area: &AreaReport, id: impl Fn(u16) -> u32) -> Option<Entry> {
    let name = area.name.as_ref().filter(|name| Name::parse(name).is_ok())?;
    let placement = placement(area.remedy.as_ref()?.remedy, id)?;
    Some(Entry { name: name.clone(), placement })
}

/// The command that does for these areas what their remedy would.
pub fn command(areas: &[&AreaReport], id: impl Fn(u16) -> u32) -> Option<String> {
    let entries: Vec<Entry> = areas.iter().filter_map(|area| entry(area, &id)).collect();
    let options: Vec<String> =
        entries.iter().map(|entry| format!("--place {}", quoted(&entry.to_string()))).collect();
    match options.len() {
        0 => None,
        1..=IN_A_COMMAND => Some(format!("homing run {} -- PROGRAM", visible::name(&options.join(" ")))),
        _ => Some("homing run --place FILE -- PROGRAM, with the FILE of `homing why --plan FILE`".to_owned()),
    }
}

/// All placements of a diagnosis as a file, and how many they are.
pub fn text(report: &WhyReport) -> (String, usize) {
    let id = |node: u16| report.machine.node_id(node.into());
    let mut text = format!(
        "# Placements by name, of `homing why`: {}\n#   homing try --place FILE -- PROGRAM    (whether it is faster)\n\
         #   homing run --place FILE -- PROGRAM\n",
        visible::name(&report.sentence)
    );
    let source = if report.sampled.is_some() { "estimated from samples" } else { "modelled" };
    let mut count = 0;
    for area in &report.areas {
        let Some(remedy) = &area.remedy else { continue };
        let name = area.name.as_deref().map_or("(no name)".into(), visible::name);
        let saves = format!("saves {} {}", percent(remedy.saves), report.of());
        text.push('\n');
        match entry(area, id) {
            Some(entry) => {
                count += 1;
                let how = match entry.placement {
                    Placement::Blocks => {
                        ", if each thread's part is as large and the parts are in the order of the nodes"
                    }
                    _ => "",
                };
                let pages = things(area.pages, "page");
                text += &file::text(&format!("{pages}: {saves} ({source}){how}"), &entry);
            }
            None => {
                let to_do = in_words(remedy.remedy, |node| report.machine.node_id(node.into()));
                text += &format!("# {name}: {saves}, but not by a placement by name: {to_do}\n");
            }
        }
    }
    (text, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_remedies_of_where_pages_are_become_placements() {
        let of =
            |remedy| placement(remedy, |node| u32::from(node) + 4).map(|placement| placement.to_string());
        assert_eq!(of(Remedy::Spread).as_deref(), Some("interleave"));
        assert_eq!(of(Remedy::InitialiseByUser).as_deref(), Some("blocks"));
        assert_eq!(of(Remedy::Bind(1)).as_deref(), Some("node:5"));
        for other in [Remedy::Replicate, Remedy::Migrate, Remedy::SeparatePages, Remedy::PadLines] {
            assert_eq!(of(other), None);
        }
    }
}
