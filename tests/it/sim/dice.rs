//! Where everything random in a simulation comes from: a seed and nothing else.

use everpost::base::Entropy;

/// A repeatable sequence of throws.
pub(crate) struct Dice(Entropy);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// From `least` to `most`, both included.
    pub(crate) fn within(&self, least: u64, most: u64) -> u64 {
        least + self.number() % (most - least + 1)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.number() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    pub(crate) fn index(&self, len: usize) -> usize {
        usize::try_from(self.number() % len as u64).expect("an index")
    }

    /// Something so many times in a hundred.
    pub(crate) fn maybe<T>(&self, percent: u64, make: impl FnOnce() -> T) -> Option<T> {
        self.percent(percent).then(make)
    }

    /// One of the numbers by its weight.
    pub(crate) fn weighted(&self, weights: &[u64]) -> usize {
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
