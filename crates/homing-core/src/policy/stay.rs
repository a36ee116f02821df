//! Static policies: pages stay where the initial placement put them.

use super::{Fault, Next, Policy};
use crate::action::Actions;
use serde::{Deserialize, Serialize};

/// Moves nothing. Which static policy it is depends on the placement of its table entry.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stay;

impl Policy for Stay {
    fn fault(&mut self, _fault: &Fault, _actions: &mut Actions) -> Next {
        Next::Never
    }
}
