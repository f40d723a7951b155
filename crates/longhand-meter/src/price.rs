//! What a model's tokens cost.

/// The price of a model in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Of tokens that are read.
    pub input: u64,
    /// Of tokens that are read from a cache.
    pub cached_input: u64,
    /// Of tokens that are read and written to a cache.
    pub cache_write: u64,
    /// Of tokens that the model writes.
    pub output: u64,
}
