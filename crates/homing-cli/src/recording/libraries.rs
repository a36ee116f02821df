//! Where the recorders are: below `HOMING_LIB`, where `make install` puts them, or where `make` leaves them.

use crate::exit::{self, Code};
use std::path::PathBuf;

/// The file `name`, as in "valgrind/homing-amd64-linux".
///
/// # Errors
/// Exit code 3, naming the places that were searched, if it is in none of them.
pub fn find(name: &str) -> anyhow::Result<PathBuf> {
    let places = places();
    places.iter().map(|place| place.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        let places = places.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(", ");
        exit::error(
            Code::UNSUPPORTED,
            format!(
                "{name} is missing (looked below {places}): build it with `make recorders`, or set HOMING_LIB to the \
                 directory that holds it"
            ),
        )
    })
}

fn places() -> Vec<PathBuf> {
    if let Some(directory) = std::env::var_os("HOMING_LIB") {
        return vec![PathBuf::from(directory)];
    }
    let program = std::env::current_exe().and_then(|exe| exe.canonicalize()).unwrap_or_default();
    let around = program.ancestors().skip(1).take(4);
    around.flat_map(|directory| [directory.join("lib/homing"), directory.join("build")]).collect()
}
