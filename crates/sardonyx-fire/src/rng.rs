//! Randomness from one seed.

/// SplitMix64: the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

/// The step of the generator, and so a good first stir of any number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One number from another, well stirred.
pub(crate) fn stir(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Another stream of the same seed.
    pub(crate) fn of(seed: u64, stream: u64) -> Rng {
        Rng(stir(seed ^ stir(stream.wrapping_add(STEP))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        stir(self.0)
    }

    /// A number below `bound`; 0 when there is none.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` up to but not including `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(self.below(among.len() as u64) as usize)
    }
}
