//! Checksums over what is stored.

/// A checksum of 128 bits: enough against accidents, and short beside what it guards.
pub(super) type Seal = [u8; 16];

/// Gathers fields; each comes with its length, so that no two sequences look the same.
pub(super) struct Sealer(blake3::Hasher);

impl Sealer {
    pub(super) fn new(purpose: &str) -> Self {
        Self(blake3::Hasher::new()).bytes(purpose.as_bytes())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        self
    }

    pub(super) fn number(mut self, number: u64) -> Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(super) fn optional(self, number: Option<u64>) -> Self {
        self.number(u64::from(number.is_some())).number(number.unwrap_or_default())
    }

    pub(super) fn time(self, time_ms: i64) -> Self {
        self.number(time_ms.cast_unsigned())
    }

    pub(super) fn seal(self) -> Seal {
        let mut seal = Seal::default();
        self.0.finalize_xof().fill(&mut seal);
        seal
    }
}
