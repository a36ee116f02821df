//! What the experts have lost on other pages: around a page (its region: pages that were first used at about the same
//! time) and in the whole program. A page has few misses of its own to judge experts by; pages that are allocated and
//! used together are mostly used alike, so their losses count for it too, at a discount.

use super::expert::EXPERTS;
use super::visits::REGION;
use crate::ids::Page;
use serde::{Deserialize, Serialize};

/// Page moves of difference between experts beyond which a pool forgets half.
const MEMORY: f32 = 32.0;
/// What a page move lost in the page's region counts, in page moves lost by itself.
const OF_REGION: f32 = 0.5;
/// The same of the program.
const OF_PROGRAM: f32 = 0.05;

/// One number for each expert, in page moves.
pub(super) type Losses = [f32; EXPERTS];

/// All pools. Memory: one [`Losses`] for each region of pages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pools {
    program: Losses,
    regions: Vec<Losses>,
}

impl Pools {
    /// `page` has made the experts lose so much more.
    pub(super) fn add(&mut self, page: Page, lost: &Losses) {
        let region = (page.0 / REGION) as usize;
        if self.regions.len() <= region {
            self.regions.resize(region + 1, Losses::default());
        }
        add(&mut self.program, lost);
        add(&mut self.regions[region], lost);
    }

    /// What other pages say about the experts for `page`.
    #[inline]
    pub(super) fn prior(&self, page: Page) -> Losses {
        let mut prior = self.program.map(|loss| loss * OF_PROGRAM);
        if let Some(region) = self.regions.get((page.0 / REGION) as usize) {
            prior.iter_mut().zip(region).for_each(|(prior, loss)| *prior += loss * OF_REGION);
        }
        prior
    }
}

/// Adds, keeps the best at 0, and halves what has grown too old to matter.
fn add(pool: &mut Losses, lost: &Losses) {
    pool.iter_mut().zip(lost).for_each(|(sum, more)| *sum += more);
    let least = pool.iter().copied().fold(f32::INFINITY, f32::min);
    let most = pool.iter().copied().fold(0.0, f32::max) - least;
    for sum in pool.iter_mut() {
        *sum -= least;
        if most > MEMORY {
            *sum = sum.min(2.0 * MEMORY) / 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_count_more_than_the_program_and_old_losses_fade() {
        let mut pools = Pools::default();
        pools.add(Page(40), &[4.0, 0.0, 1.0]);
        let (near, far) = (pools.prior(Page(33)), pools.prior(Page(0)));
        assert!(near[0] > far[0] && far[0] > 0.0 && near[1] == 0.0);
        for _ in 0..1000 {
            pools.add(Page(40), &[1.0, 0.0, 0.0]);
        }
        for _ in 0..3 * MEMORY as usize {
            pools.add(Page(40), &[0.0, 1.0, 0.0]);
        }
        let prior = pools.prior(Page(40));
        assert!(prior[0] < prior[1], "{prior:?}");
    }
}
