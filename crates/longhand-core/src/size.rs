//! What a window takes of everything that is limited.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use crate::Tokens;

/// Tokens, bytes and pictures together: providers limit each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Tokens.
    pub tokens: Tokens,
    /// Bytes of the request.
    pub bytes: u64,
    /// Pictures.
    pub images: u64,
}

impl Size {
    /// Nothing.
    pub const ZERO: Self = Self { tokens: Tokens::ZERO, bytes: 0, images: 0 };

    /// No limit.
    pub const MAX: Self = Self { tokens: Tokens::MAX, bytes: u64::MAX, images: u64::MAX };

    /// Tokens alone.
    pub fn of(tokens: Tokens) -> Self {
        Self { tokens, ..Self::ZERO }
    }

    /// Whether it is within a limit in every respect.
    pub fn is_within(&self, limit: &Self) -> bool {
        self.tokens <= limit.tokens && self.bytes <= limit.bytes && self.images <= limit.images
    }

    /// Subtracts `other` from tokens, bytes and images; none gets below zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            bytes: self.bytes.saturating_sub(other.bytes),
            images: self.images.saturating_sub(other.images),
        }
    }

    /// The smaller of both in every respect.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.min(other.tokens),
            bytes: self.bytes.min(other.bytes),
            images: self.images.min(other.images),
        }
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            bytes: self.bytes.saturating_add(other.bytes),
            images: self.images.saturating_add(other.images),
        }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}
