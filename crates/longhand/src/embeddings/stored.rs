//! How vectors are kept: as derived values of their session, a few entries in each.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use longhand_archive::{Archive, ArchiveError, SessionId};
use longhand_recall::Vector;

/// The vectors of so many entries are one value, which is written anew when it gets one more.
pub(super) const ENTRIES_OF_VALUE: u64 = 16;

/// The vectors of the entries that are in one value, by their numbers.
type ValueVectors = BTreeMap<u64, Vec<Vector>>;

/// What is known of the entries of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SessionVectors {
    version: String,
    /// Shared, since a session of many entries is copied whenever it gets more.
    of_values: BTreeMap<u64, Arc<ValueVectors>>,
}

impl SessionVectors {
    /// Reads what a session has of a version. A value that cannot be read is computed again.
    pub(super) fn read(
        archive: &dyn Archive,
        session: SessionId,
        version: &str,
    ) -> Result<Self, ArchiveError> {
        let prefix = prefix_of(version);
        let mut vectors = Self { version: version.to_owned(), of_values: BTreeMap::new() };
        for key in archive.derived_keys(session, &prefix)? {
            let number = key.strip_prefix(&prefix).and_then(|number| number.parse::<u64>().ok());
            let (Some(number), Some(value)) = (number, archive.derived(session, &key)?) else {
                continue;
            };
            let of_value = number * ENTRIES_OF_VALUE..(number + 1) * ENTRIES_OF_VALUE;
            let read = decoded(&value).unwrap_or_default().into_iter();
            let read: ValueVectors = read.filter(|(entry, _)| of_value.contains(entry)).collect();
            vectors.of_values.insert(number, Arc::new(read));
        }
        Ok(vectors)
    }

    /// Whether the archive still has what was read: a session of the same name may have taken its place.
    pub(super) fn is_kept(
        &self,
        archive: &dyn Archive,
        session: SessionId,
    ) -> Result<bool, ArchiveError> {
        let Some(number) = self.of_values.keys().next() else { return Ok(true) };
        Ok(archive.derived(session, &self.key(*number))?.is_some())
    }

    pub(super) fn has(&self, entry: u64) -> bool {
        let value = self.of_values.get(&(entry / ENTRIES_OF_VALUE));
        value.is_some_and(|value| value.contains_key(&entry))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_values.is_empty()
    }

    pub(super) fn add(&mut self, entry: u64, vectors: Vec<Vector>) {
        let value = self.of_values.entry(entry / ENTRIES_OF_VALUE).or_default();
        Arc::make_mut(value).insert(entry, vectors);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[Vector])> {
        let entries = self.of_values.values().flat_map(|value| value.iter());
        entries.map(|(entry, vectors)| (*entry, vectors.as_slice()))
    }

    /// The key and the value that have an entry.
    pub(super) fn value_with(&self, entry: u64) -> (String, String) {
        let number = entry / ENTRIES_OF_VALUE;
        let mut bytes = Vec::new();
        for (entry, vectors) in self.of_values.get(&number).into_iter().flat_map(|of| of.iter()) {
            bytes.extend(entry.to_le_bytes());
            bytes.push(vectors.len() as u8);
            for vector in vectors {
                let vector: Vec<u8> = vector.to_bytes().collect();
                bytes.extend((vector.len() as u16).to_le_bytes());
                bytes.extend(vector);
            }
        }
        (self.key(number), STANDARD_NO_PAD.encode(bytes))
    }

    fn key(&self, number: u64) -> String {
        format!("{}{number:010}", prefix_of(&self.version))
    }
}

fn prefix_of(version: &str) -> String {
    format!("vectors {version} ")
}

fn decoded(value: &str) -> Option<Vec<(u64, Vec<Vector>)>> {
    let bytes = STANDARD_NO_PAD.decode(value).ok()?;
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (entry, after) = rest.split_first_chunk()?;
        let (count, mut after) = after.split_first()?;
        let mut vectors = Vec::new();
        for _ in 0..*count {
            let (length, vector) = after.split_first_chunk()?;
            let (vector, others) = vector.split_at_checked(u16::from_le_bytes(*length).into())?;
            vectors.push(Vector::from_bytes(vector)?);
            after = others;
        }
        entries.push((u64::from_le_bytes(*entry), vectors));
        rest = after;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let mut vectors = SessionVectors { version: "m".to_owned(), ..SessionVectors::default() };
        vectors.add(17, vec![Vector::of(&[1.0, 0.5]), Vector::of(&[0.0, -1.0])]);
        vectors.add(18, Vec::new());
        vectors.add(40, vec![Vector::of(&[1.0])]);
        let (key, value) = vectors.value_with(18);
        assert_eq!(key, "vectors m 0000000001");
        let of_value: Vec<_> =
            vectors.iter().take(2).map(|(entry, of)| (entry, of.to_vec())).collect();
        assert_eq!(decoded(&value), Some(of_value));
        for broken in ["?", "AAAA", &value[..value.len() - 4]] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
        assert_eq!(decoded(""), Some(Vec::new()));
    }
}
