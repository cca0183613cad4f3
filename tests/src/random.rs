//! Numbers at random, from a seed.

/// Sebastiano Vigna's splitmix64, <https://prng.di.unimi.it/splitmix64.c>.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let place = usize::try_from(self.below(all.len() as u64)).unwrap_or(0);
        all[place].clone()
    }

    /// Up to `most` of what `make` makes.
    pub(crate) fn some<T>(&mut self, most: u64, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}

/// So many of them are the same every time.
const ALWAYS: u64 = 40;

/// The seeds of the programs to run: `DUEBOX_TEST_PROGRAMS` many, or the one of
/// `DUEBOX_TEST_PROGRAMS_SEED`. The first are the same every time, so that what
/// they find is found for certain.
pub(crate) fn seeds(usual: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let one = number("DUEBOX_TEST_PROGRAMS_SEED");
    let count = number("DUEBOX_TEST_PROGRAMS").unwrap_or(usual);
    let mut seeds = Random::new(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0)),
    );
    let programs = if one.is_some() { 1 } else { count };
    (0..programs).map(move |number| match one {
        Some(seed) => seed,
        None if number < ALWAYS => number,
        None => seeds.next(),
    })
}
