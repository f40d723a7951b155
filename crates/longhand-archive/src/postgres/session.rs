//! Sessions: one row each, which has all that a list shows, and the version.

use longhand_core::session::{News, Node, Version};
use longhand_core::{Link, Seq};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::server::both;
use super::{batch, entry};
use crate::seal::{Seal, Sealer};
use crate::storage::Opened;
use crate::{DamagedPart, NewSession, Origin, Owner, SessionId, SessionInfo, SessionUsage};

/// A session as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredSession {
    pub(super) number: i64,
    /// All that a list shows; sound unless it says otherwise.
    pub(super) info: SessionInfo,
    /// The parent and the link of the entry that was appended last.
    pub(super) parent: Option<u64>,
    pub(super) link: Link,
    pub(super) requests: u64,
    pub(super) notes: u64,
    pub(super) undone: Vec<u64>,
    pub(super) pins: Vec<Seq>,
}

/// The columns, in the order in which they are read and written; the number comes first, and is only read.
macro_rules! columns {
    () => {
        "id, owner, dialect, name, continues, kin, begun_ms, project, agent, file, imported, opening, \
         newest, entries, bytes, first_ms, last_ms, parent, round, link, batches, requests, notes, \
         undone, pins, usage, seal"
    };
}

/// Selects sessions.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT number, ",
            crate::postgres::session::columns!(),
            " FROM longhand.session ",
            $rest
        )
    };
}
pub(super) use {columns, select};

use super::session;

const TYPES: [Type; 27] = [
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
];

pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What stands for a text in an index.
pub(super) fn hash(text: &str) -> Seal {
    array(&blake3::hash(text.as_bytes()).as_bytes()[..16])
}

/// Reads an id or a hash; one of another length is that of nothing.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

fn packed(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(u64::to_le_bytes).collect()
}

fn unpacked(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

impl StoredSession {
    /// A session that begins now.
    pub(super) fn begin(id: SessionId, new: &NewSession) -> Self {
        let NewSession { owner, dialect, name, continues, group, begun_ms, origin, opening } =
            new.clone();
        let info = SessionInfo {
            id,
            owner,
            dialect,
            name,
            continues,
            group,
            begun_ms,
            origin,
            opening,
            ..SessionInfo::default()
        };
        Self {
            number: 0,
            info,
            parent: None,
            link: Link(0),
            requests: 0,
            notes: 0,
            undone: Vec::new(),
            pins: Vec::new(),
        }
    }

    pub(super) fn read(row: &Row) -> Self {
        let count = |column: usize| row.get::<_, i64>(column).max(0).cast_unsigned();
        let bytes = |column: usize| row.get::<_, &[u8]>(column);
        let undone = bytes(24);
        let mut stored = Self {
            number: row.get(0),
            info: SessionInfo {
                id: SessionId::from_bytes(array(bytes(1))),
                owner: Owner::from_bytes(array(bytes(2))),
                dialect: text(bytes(3)),
                name: text(bytes(4)),
                continues: row
                    .get::<_, Option<&[u8]>>(5)
                    .map(|id| SessionId::from_bytes(array(id))),
                group: row.get::<_, Option<i64>>(6).map(i64::cast_unsigned),
                begun_ms: row.get(7),
                origin: Origin {
                    project: text(bytes(8)),
                    agent: text(bytes(9)),
                    file: text(bytes(10)),
                    offset: count(11),
                },
                opening: text(bytes(12)),
                usage: SessionUsage::decode(bytes(26)).unwrap_or_default(),
                entries: count(14),
                rounds: if count(14) > 0 { count(19) + 1 } else { 0 },
                batches: count(21),
                bytes: count(15),
                first_ms: row.get(16),
                last_ms: row.get(17),
                activity: count(13),
                is_damaged: false,
            },
            parent: row.get::<_, Option<i64>>(18).map(i64::cast_unsigned),
            link: Link(u128::from_be_bytes(array(bytes(20)))),
            requests: count(22),
            notes: count(23),
            undone: unpacked(undone),
            pins: unpacked(bytes(25)).into_iter().map(Seq).collect(),
        };
        stored.info.is_damaged = stored.seal() != bytes(27);
        stored
    }

    pub(super) fn id(&self) -> SessionId {
        self.info.id
    }

    pub(super) fn owner(&self) -> Owner {
        self.info.owner
    }

    /// The session, if it is what was written.
    pub(super) fn checked(self) -> Result<Self, Fault> {
        if self.info.is_damaged {
            let detail = "failed its checksum";
            return Err(Fault::damage(self.id(), DamagedPart::Session, detail));
        }
        Ok(self)
    }

    /// What a list shows of it: of one that is damaged, who it is.
    pub(super) fn listed(self) -> SessionInfo {
        if !self.info.is_damaged {
            return self.info;
        }
        let SessionInfo { id, owner, dialect, name, continues, group, begun_ms, origin, .. } =
            self.info;
        let is_damaged = true;
        let info = SessionInfo {
            id,
            owner,
            dialect,
            name,
            continues,
            group,
            begun_ms,
            origin,
            ..SessionInfo::default()
        };
        SessionInfo { is_damaged, ..info }
    }

    pub(super) fn version(&self) -> Version {
        let pins = if self.pins.is_empty() {
            0
        } else {
            let seal = Sealer::new("pins").bytes(&self.packed_pins()).seal();
            seal.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes))
        };
        Version {
            birth: self.number.cast_unsigned(),
            entries: self.info.entries,
            batches: self.info.batches,
            undos: self.undone.len() as u64,
            pins,
        }
    }

    pub(super) fn newest(&self) -> Option<Node> {
        let newest = self.info.entries.checked_sub(1)?;
        let (seq, parent, link) = (Seq(newest), self.parent.map(Seq), self.link);
        Some(Node { seq, parent, link, round: self.info.rounds.saturating_sub(1) })
    }

    pub(super) fn damage(&self, part: DamagedPart, detail: &str) -> Fault {
        Fault::damage(self.id(), part, detail)
    }

    fn packed_pins(&self) -> Vec<u8> {
        packed(self.pins.iter().map(|seq| seq.0))
    }

    fn seal(&self) -> Seal {
        let info = &self.info;
        Sealer::new("session row")
            .bytes(&info.id.to_bytes())
            .bytes(&info.owner.to_bytes())
            .bytes(info.dialect.as_bytes())
            .bytes(info.name.as_bytes())
            .bytes(info.continues.map(SessionId::to_bytes).as_ref().map_or(&[], |id| &id[..]))
            .optional(info.group)
            .time(info.begun_ms)
            .bytes(info.origin.project.as_bytes())
            .bytes(info.origin.agent.as_bytes())
            .bytes(info.origin.file.as_bytes())
            .number(info.origin.offset)
            .bytes(info.opening.as_bytes())
            .number(info.activity)
            .number(info.entries)
            .number(info.bytes)
            .time(info.first_ms)
            .time(info.last_ms)
            .optional(self.parent)
            .number(info.rounds)
            .bytes(&self.link.0.to_be_bytes())
            .number(info.batches)
            .number(self.requests)
            .number(self.notes)
            .bytes(&packed(self.undone.iter().copied()))
            .bytes(&self.packed_pins())
            .bytes(&info.usage.encode())
            .seal()
    }

    /// Writes the row; one that begins gets its number before.
    pub(super) async fn save(
        &self,
        db: &Client,
        is_new: bool,
    ) -> Result<(), tokio_postgres::Error> {
        let info = &self.info;
        let (id, owner) = (&info.id.to_bytes()[..], &info.owner.to_bytes()[..]);
        let continues = info.continues.map(SessionId::to_bytes);
        let continues = continues.as_ref().map(|id| &id[..]);
        let group = info.group.map(u64::cast_signed);
        let counts = [
            info.origin.offset,
            info.activity,
            info.entries,
            info.bytes,
            info.batches,
            self.requests,
            self.notes,
        ]
        .map(number);
        let [imported, newest, entries, bytes, batches, requests, notes] = &counts;
        let parent = self.parent.map(number);
        let round = number(info.rounds.saturating_sub(1));
        let link = &self.link.0.to_be_bytes()[..];
        let (undone, pins) = (packed(self.undone.iter().copied()), self.packed_pins());
        let (usage, seal) = (info.usage.encode(), self.seal());
        let seal = &seal[..];
        let (dialect, name, opening) =
            (info.dialect.as_bytes(), info.name.as_bytes(), info.opening.as_bytes());
        let (project, agent, file) = (
            info.origin.project.as_bytes(),
            info.origin.agent.as_bytes(),
            info.origin.file.as_bytes(),
        );
        let values: [&(dyn ToSql + Sync); 27] = [
            &id,
            &owner,
            &dialect,
            &name,
            &continues,
            &group,
            &info.begun_ms,
            &project,
            &agent,
            &file,
            imported,
            &opening,
            newest,
            entries,
            bytes,
            &info.first_ms,
            &info.last_ms,
            &parent,
            &round,
            &link,
            batches,
            requests,
            notes,
            &undone,
            &pins,
            &usage,
            &seal,
        ];
        let mut values: Vec<(&(dyn ToSql + Sync), Type)> = values.into_iter().zip(TYPES).collect();
        values.push((&self.number, Type::INT8));
        let sql = if is_new {
            concat!(
                "INSERT INTO longhand.session (",
                session::columns!(),
                ", number) OVERRIDING SYSTEM VALUE \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
                 $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)"
            )
        } else {
            concat!(
                "UPDATE longhand.session SET (",
                session::columns!(),
                ") = ($1, $2, $3, $4, $5, $6, $7, $8, \
                 $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27) \
                 WHERE number = $28"
            )
        };
        db.execute_typed(sql, &values).await.map(drop)
    }
}

/// Finds a session, checked.
pub(super) async fn find(db: &Client, id: SessionId) -> Result<Option<StoredSession>, Fault> {
    let sql = session::select!("WHERE id = $1");
    let found = db.query_typed_opt(sql, &[(&&id.to_bytes()[..], Type::BYTEA)]).await?;
    found.map(|row| StoredSession::read(&row).checked()).transpose()
}

/// See [`crate::Storage::open`]. One round trip, unless another session had the id before.
pub(super) async fn open(
    db: &Client,
    id: SessionId,
    since: Version,
) -> Result<Option<Opened>, Fault> {
    let news = async {
        both(entry::forks(db, id, since.entries), batch::lines(db, id, since.batches)).await
    };
    let news = both(news, entry::newest_nodes(db, id, since.entries));
    let (found, ((forks, lines), nodes)) = both(find(db, id), news).await;
    let Some(session) = found? else { return Ok(None) };
    let version = session.version();
    let is_earlier = since.birth == version.birth
        && since.entries <= version.entries
        && since.batches <= version.batches
        && since.undos <= version.undos;
    if !is_earlier && since != Version::default() {
        return Box::pin(open(db, id, Version::default())).await;
    }
    // Each statement sees what was there when it began: what came after the session was read does not count.
    let forks = forks?
        .into_iter()
        .filter(|(number, fork)| *number == session.number && fork.first.0 < version.entries);
    let forks = forks.map(|(_, fork)| fork).collect();
    let nodes = nodes?
        .into_iter()
        .filter(|(number, node)| *number == session.number && node.seq.0 < version.entries);
    let nodes = nodes.map(|(_, node)| node).collect();
    let batches = batch::checked_lines(&session, since.batches, lines?)?;
    let news = News {
        version,
        newest: session.newest(),
        forks,
        batches,
        undone: session.undone.iter().skip(since.undos as usize).copied().collect(),
        pins: session.pins.clone(),
    };
    Ok(Some(Opened { requests: session.requests, news, nodes, session: session.info }))
}
