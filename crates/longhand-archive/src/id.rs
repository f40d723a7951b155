//! Addresses of 128 bits: sessions, owners, preambles.

use std::fmt;
use std::str::FromStr;

use longhand_core::Link;

/// Names a session everywhere and for ever.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u128);

/// Whose a session is. Owners never see, find or share each other's sessions, bodies and handles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u128);

/// Names the content of a preamble; the same content has the same id.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PreambleId(pub u128);

/// A string that is not an id of 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has 32 hexadecimal digits")]
pub struct ParseIdError;

impl SessionId {
    /// The session that an owner calls by a name. Different names give different sessions.
    pub fn named(owner: Owner, name: &str) -> Self {
        Self(hash(b"session", &[&owner.to_bytes(), name.as_bytes()]))
    }
}

impl Owner {
    /// Whoever uses this machine's own archive.
    pub const LOCAL: Self = Self(0);

    /// The owner who has a credential, of which only a hash is kept.
    pub fn of(credential: &str) -> Self {
        Self(hash(b"owner", &[credential.as_bytes()]))
    }

    /// Where the hash chains of this owner's messages begin.
    pub fn root(self) -> Link {
        Link::root(&self.to_bytes())
    }
}

impl PreambleId {
    /// The id of a content.
    pub fn of(content: &str) -> Self {
        Self(hash(b"preamble", &[content.as_bytes()]))
    }
}

/// Each field comes with its length, so that no two lists of fields look the same.
fn hash(domain: &[u8], fields: &[&[u8]]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"longhand ");
    for field in [domain].iter().chain(fields) {
        hasher.update(&(field.len() as u64).to_le_bytes()).update(field);
    }
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    u128::from_be_bytes(half)
}

macro_rules! id {
    ($id:ident) => {
        impl $id {
            /// The id as bytes, in the order of its digits.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// Reads what [`to_bytes`](Self::to_bytes) wrote.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $id {
            type Err = ParseIdError;

            fn from_str(digits: &str) -> Result<Self, ParseIdError> {
                // Without the check a sign would pass as a digit.
                if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return Err(ParseIdError);
                }
                u128::from_str_radix(digits, 16).map(Self).map_err(|_| ParseIdError)
            }
        }
    };
}

id!(SessionId);
id!(Owner);
id!(PreambleId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_shown() {
        for id in [SessionId(0), SessionId(u128::MAX), SessionId::named(Owner::LOCAL, "work")] {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
            assert_eq!(SessionId::from_bytes(id.to_bytes()), id);
        }
        let signed = format!("+{}", "0".repeat(31));
        for bad in ["", "work", &"0".repeat(31), &"0".repeat(33), &signed] {
            assert_eq!(bad.parse::<SessionId>(), Err(ParseIdError), "{bad}");
        }
    }

    #[test]
    fn names_and_owners_never_share_a_session() {
        let names = ["", " ", "a", "A", "a/b", "a_b", "é", "e\u{301}", "a\0"];
        let owners = [Owner::LOCAL, Owner::of("key"), Owner::of("")];
        let ids = owners.iter().flat_map(|owner| names.map(|name| SessionId::named(*owner, name)));
        let distinct: std::collections::HashSet<SessionId> = ids.collect();
        assert_eq!(distinct.len(), owners.len() * names.len());
    }
}
