//! Where what runs inside programs is: below `HOMING_LIB`, where `make install` puts it, or where `make` leaves it.

use crate::environment::variable;
use std::path::PathBuf;

/// A file that is in none of the places.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name} is missing (looked below {}): build it with `make recorders preload`, or set HOMING_LIB to the \
     directory that holds it",
    .places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
)]
pub struct Missing {
    name: String,
    places: Vec<PathBuf>,
}

/// The file `name`, as in "valgrind/homing-amd64-linux".
///
/// # Errors
/// Names the places that were searched, if it is in none of them.
pub fn find(name: &str) -> Result<PathBuf, Missing> {
    let places = places();
    let found = places.iter().map(|place| place.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| Missing { name: name.to_owned(), places })
}

fn places() -> Vec<PathBuf> {
    if let Some(directory) = variable("HOMING_LIB") {
        return vec![PathBuf::from(directory)];
    }
    let program = std::env::current_exe().and_then(|exe| exe.canonicalize()).unwrap_or_default();
    let around = program.ancestors().skip(1).take(4);
    around.flat_map(|directory| [directory.join("lib/homing"), directory.join("build")]).collect()
}
