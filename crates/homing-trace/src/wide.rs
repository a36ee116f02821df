//! Code for vectors of 256 bits, where the processor has them.

/// Work whose loops are worth vectors. [`Work::run`] is to be `#[inline(always)]`, and what it calls as well.
pub(super) trait Work {
    /// What comes of it.
    type Result;

    /// Does it.
    fn run(self) -> Self::Result;
}

/// Does work, compiled for AVX2 and what came with it if this processor has that. It computes the same either way.
#[inline]
pub(super) fn wide<W: Work>(work: W) -> W::Result {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<W: Work>(work: W) -> W::Result {
            work.run()
        }
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        #[cfg(test)]
        let has = has && !plain::FORCED.get();
        if has {
            // SAFETY: the processor has what the function is compiled for.
            #[allow(unsafe_code)]
            return unsafe { compiled(work) };
        }
    }
    work.run()
}

#[cfg(test)]
pub(super) mod plain {
    use std::cell::Cell;

    thread_local! {
        /// This thread's work is done without, whatever the processor has.
        pub static FORCED: Cell<bool> = const { Cell::new(false) };
    }
}
