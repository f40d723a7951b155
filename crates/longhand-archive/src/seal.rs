//! Checksums over what is stored.

/// A checksum of 128 bits: enough against accidents, and short beside what it guards.
pub(crate) type Seal = [u8; 16];

/// Gathers fields; each comes with its length, so that no two sequences look the same.
///
/// The fields are put side by side and hashed at once: a hasher takes two kilobytes, which each step
/// of the chain would move.
pub(crate) struct Sealer(Vec<u8>);

/// What the fields of an entry or of a request usually take.
const FIELDS_BYTES: usize = 384;

impl Sealer {
    pub(crate) fn new(purpose: &str) -> Self {
        Self(Vec::with_capacity(FIELDS_BYTES)).bytes(purpose.as_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn optional(self, number: Option<u64>) -> Self {
        self.number(u64::from(number.is_some())).number(number.unwrap_or_default())
    }

    pub(crate) fn time(self, time_ms: i64) -> Self {
        self.number(time_ms.cast_unsigned())
    }

    pub(crate) fn seal(self) -> Seal {
        let hash = blake3::hash(&self.0);
        let mut seal = Seal::default();
        seal.copy_from_slice(&hash.as_bytes()[..size_of::<Seal>()]);
        seal
    }
}
