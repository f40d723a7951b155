//! The best of many.

/// Keeps the items with the highest scores; of equal ones, those with the highest keys.
#[derive(Clone, Debug)]
pub struct Best {
    limit: usize,
    /// In no order until it is full.
    items: Vec<(f32, u64)>,
    /// The least that gets in once it is full.
    least: (f32, u64),
}

impl Best {
    /// Keeps at most so many.
    pub fn new(limit: usize) -> Self {
        Self { limit, items: Vec::new(), least: (f32::NEG_INFINITY, 0) }
    }

    /// Whether an item would be kept now.
    pub fn takes(&self, score: f32, key: u64) -> bool {
        self.limit > 0
            && (self.items.len() < self.limit || compare((score, key), self.least).is_gt())
    }

    /// Adds an item, if it is among the best so far.
    pub fn add(&mut self, score: f32, key: u64) {
        if !self.takes(score, key) {
            return;
        }
        self.items.push((score, key));
        // Sorted now and then, so that many items cost little each.
        if self.items.len() >= self.limit.saturating_mul(2).max(self.limit + 1) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.items.sort_unstable_by(|one, other| compare(*other, *one));
        self.items.truncate(self.limit);
        if let Some(last) = self.items.last().filter(|_| self.items.len() == self.limit) {
            self.least = *last;
        }
    }

    /// The best, in order.
    pub fn into_sorted(mut self) -> Vec<(f32, u64)> {
        self.shrink();
        self.items
    }
}

fn compare(one: (f32, u64), other: (f32, u64)) -> std::cmp::Ordering {
    one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
}
