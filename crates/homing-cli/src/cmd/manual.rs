//! `homing completions` and `homing man`: what shells and man(1) want, from the same table as `--help`.

use crate::exit::{self, Code, Result};
use crate::files::Over;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Arguments of `homing completions`.
#[derive(clap::Args)]
pub struct CompletionArgs {
    /// The shell to complete commands in
    shell: Shell,
}

/// Arguments of `homing man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// Write a page for homing and one for each subcommand into this directory, instead of one page to standard output
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The subcommand whose page to print, as in `homing man trace merge`
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "output")]
    subcommand: Vec<String>,
}

/// Prints the completion script.
pub fn completions(args: CompletionArgs) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::table(), "homing", &mut script);
    crate::stdout::bytes(&script)?;
    Ok(Code::OK)
}

/// Prints or writes manual pages.
pub fn man(args: ManArgs) -> Result {
    let mut table = crate::table();
    table.build();
    if let Some(directory) = &args.output {
        crate::files::make_directory(directory)?;
        return write_pages(&table, "homing", directory).map(|()| Code::OK);
    }
    let mut command = &table;
    let mut name = "homing".to_owned();
    for part in &args.subcommand {
        let missing = || exit::error(Code::USAGE, format!("{name} has no subcommand `{part}`"));
        command = command.find_subcommand(part).ok_or_else(missing)?;
        name = format!("{name}-{part}");
    }
    crate::stdout::bytes(&page(command, &name)?)?;
    Ok(Code::OK)
}

/// Writes the page of a command and those of all below it.
fn write_pages(command: &clap::Command, name: &str, directory: &Path) -> anyhow::Result<()> {
    let file = directory.join(format!("{name}.1"));
    crate::files::write(&file, Over::Texts, page(command, name)?)?;
    let subcommands = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for subcommand in subcommands {
        write_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), directory)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    let source = concat!("homing ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).source(source).render(&mut page)?;
    Ok(page)
}
