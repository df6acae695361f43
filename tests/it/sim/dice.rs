//! Where everything random in a simulation comes from: a seed and nothing else.

use everpost::base::Entropy;

/// A repeatable sequence of throws.
pub(super) struct Dice(Entropy);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// From `least` to `most`, both included.
    pub(super) fn within(&self, least: u64, most: u64) -> u64 {
        least + self.number() % (most - least + 1)
    }

    /// True so many times in a hundred.
    pub(super) fn percent(&self, percent: u64) -> bool {
        self.number() % 100 < percent
    }

    pub(super) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    pub(super) fn index(&self, len: usize) -> usize {
        usize::try_from(self.number() % len as u64).expect("an index")
    }

    /// Something so many times in a hundred.
    pub(super) fn maybe<T>(&self, percent: u64, make: impl FnOnce() -> T) -> Option<T> {
        self.percent(percent).then(make)
    }

    /// One of the numbers by its weight.
    pub(super) fn weighted(&self, weights: &[u64]) -> usize {
        let mut left = self.number() % weights.iter().sum::<u64>();
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the weights add up")
    }
}
