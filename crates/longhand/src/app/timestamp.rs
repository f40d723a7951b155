//! A time in plain structs.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time;

/// A time in milliseconds since 1970, which JSON has as `2026-11-15T19:29:00.000Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time::format(self.0))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = time::parse(&text).map(Self);
        parsed.ok_or_else(|| de::Error::custom(format!("{text:?} is not a time")))
    }
}
