//! A small seeded generator that gives the same numbers on every platform.

use std::ops::Range;

/// A splitmix64 generator: one word of state, good enough for test data.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts a sequence that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of the half-open range, which must not be empty.
    pub fn range(&mut self, range: Range<usize>) -> usize {
        assert!(!range.is_empty(), "an empty range has no number to give");
        let width = (range.end - range.start) as u128;
        range.start + ((u128::from(self.next_u64()) * width) >> 64) as usize
    }

    /// Returns one of the items, which must not be empty.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.range(0..items.len())]
    }

    /// Puts the items in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.range(0..last + 1));
        }
    }

    /// Is true with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number from 0 up to, but without, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a log-normal number, of which half are below `median`.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * exponential(sigma * self.normal())
    }

    /// Appends `length` characters of `alphabet`, which must be ASCII.
    pub fn push_letters(&mut self, text: &mut String, alphabet: &[u8], length: usize) {
        text.extend((0..length).map(|_| char::from(*self.choose(alphabet))));
    }

    /// Twelve uniform numbers add up to a variance of one.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Computes e^x by its series: `f64::exp` may differ in the last bit between platforms.
fn exponential(x: f64) -> f64 {
    let eighth = x / 8.0;
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..16 {
        term *= eighth / f64::from(n);
        sum += term;
    }
    let quarter = sum * sum;
    let half = quarter * quarter;
    half * half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_first_numbers() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn range_reaches_both_ends_and_stays_inside() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.range(10..15) - 10] = true;
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn exponential_is_close_to_the_real_one() {
        for x in [-6.0, -1.0, 0.0, 0.5, 3.0, 6.0_f64] {
            assert!((exponential(x) / x.exp() - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn half_of_the_log_normal_numbers_are_below_the_median() {
        let mut rng = Rng::new(7);
        let below = (0..10_000).filter(|_| rng.log_normal(2048.0, 1.1) < 2048.0).count();
        assert!((4_800..5_200).contains(&below), "{below}");
    }

    #[test]
    fn chance_follows_its_probability() {
        let mut rng = Rng::new(3);
        let hits = (0..10_000).filter(|_| rng.chance(0.03)).count();
        assert!((220..380).contains(&hits), "{hits}");
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<_> = (0..50).collect();
        Rng::new(9).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
