//! How fine the addresses of a trace's references are.

use super::format::FRAME_SHIFT;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How fine the addresses of references are. In a header it is a number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u64", try_from = "u64")]
pub enum Grain {
    /// Each reference has its address.
    #[default]
    Byte,
    /// Each reference has the address of the frame that it begins in, and nothing is known of where in it.
    Page,
}

impl Grain {
    /// Bytes that addresses do not tell apart.
    pub fn bytes(self) -> u64 {
        match self {
            Grain::Byte => 1,
            Grain::Page => 1 << FRAME_SHIFT,
        }
    }

    /// Whether addresses are as the program had them.
    pub fn is_exact(&self) -> bool {
        *self == Grain::Byte
    }

    /// The bits of an address that are kept.
    #[inline]
    pub(super) fn mask(self) -> u64 {
        !(self.bytes() - 1)
    }
}

impl From<Grain> for u64 {
    fn from(grain: Grain) -> u64 {
        grain.bytes()
    }
}

impl TryFrom<u64> for Grain {
    type Error = String;

    fn try_from(bytes: u64) -> Result<Grain, String> {
        let known = [Grain::Byte, Grain::Page].into_iter().find(|grain| grain.bytes() == bytes);
        known.ok_or_else(|| format!("a grain of {bytes} bytes; expected 1 or {}", Grain::Page.bytes()))
    }
}

impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grain::Byte => "byte",
            Grain::Page => "page",
        })
    }
}
