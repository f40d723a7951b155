//! Records as lines of JSON.

use longhand_archive::{
    Entry, NewBatch, NewSession, Note, NoteContent, Origin, Owner, PreambleId, Record, RegretNote,
    Regretted, RequestRecord, SessionId,
};
use longhand_core::{Batch, Edit, Fold, Handle, Link, Original, Place, Seq, Span};
use serde_json::{Map, Value, json};

use crate::driver::searchable;
use crate::unread;

/// Writes a record. Numbers of 128 bits are written in hexadecimal digits, and times in milliseconds since 1970.
pub(super) fn written(id: SessionId, record: Record) -> Value {
    let (kind, value) = match record {
        Record::Session(new) => ("session", session(id, &new)),
        Record::Entry { entry, text } => ("entry", self::entry(entry, text)),
        Record::Batch { number, batch } => ("batch", self::batch(number, &batch)),
        Record::Undo(batch) => ("undo", json!(batch)),
        Record::Pins(seqs) => ("pins", seqs.iter().map(|seq| json!(seq.0)).collect()),
        Record::Preamble(content) => ("preamble", Value::String(content)),
        Record::Request(request) => ("request", self::request(&request)),
        Record::Note(note) => ("note", self::note(note)),
        Record::Derived { key, value } => ("derived", json!({"key": key, "value": value})),
    };
    let mut object = Map::new();
    object.insert(kind.to_owned(), value);
    Value::Object(object)
}

fn session(id: SessionId, new: &NewSession) -> Value {
    json!({
        "id": id.to_string(),
        "owner": new.owner.to_string(),
        "name": new.name,
        "dialect": new.dialect,
        "continues": new.continues.map(|id| id.to_string()),
        "group": new.group,
        "begun_ms": new.begun_ms,
        "project": new.origin.project,
        "agent": new.origin.agent,
        "file": new.origin.file,
        "offset": new.origin.offset,
        "opening": new.opening,
    })
}

/// A long message is moved, not copied.
fn entry(entry: Entry, text: String) -> Value {
    // What search sees of a message nearly always follows from it.
    let text = (searchable(&entry.form, &entry.raw) != text).then_some(text);
    let mut value = json!({
        "seq": entry.seq.0,
        "parent": entry.parent.map(|parent| parent.0),
        "round": entry.round,
        "link": format!("{:032x}", entry.link.0),
        "at_ms": entry.at_ms,
        "form": entry.form,
    });
    if let Some(source_ms) = entry.source_ms {
        value["source_ms"] = json!(source_ms);
    }
    value["raw"] = Value::String(entry.raw);
    if let Some(text) = text {
        value["text"] = Value::String(text);
    }
    value
}

fn batch(number: u64, batch: &NewBatch) -> Value {
    let NewBatch { after, at_ms, batch: Batch { head, edits, state, variants }, receipt } = batch;
    let variants = variants.iter().map(|(handle, original)| {
        let kind = if matches!(original, Original::Text(_)) { "text" } else { "json" };
        json!({"handle": handle.to_string(), kind: original.as_str()})
    });
    json!({
        "number": number,
        "after": after,
        "at_ms": at_ms,
        "head": head.0,
        "edits": edits.iter().map(edit).collect::<Value>(),
        "state": state,
        "variants": variants.collect::<Value>(),
        "receipt": receipt,
    })
}

fn edit(edit: &Edit) -> Value {
    let part = |at: &Place, handle: &Handle, text: &str| json!({"at": place(at), "handle": handle.to_string(), "text": text});
    match edit {
        Edit::Stub { at, handle, text } => json!({"stub": part(at, handle, text)}),
        Edit::Clip { at, handle, text } => json!({"clip": part(at, handle, text)}),
        Edit::Fold(fold) => {
            let spans = fold.spans.iter().map(|span| json!([span.first.0, span.last.0]));
            json!({"fold": {
                "spans": spans.collect::<Value>(),
                "blocks": fold.blocks.iter().map(place).collect::<Value>(),
                "sum": format!("{:032x}", fold.sum),
                "text": fold.text,
            }})
        }
        Edit::Insert { after, text } => json!({"insert": {"after": after.0, "text": text}}),
    }
}

fn place(place: &Place) -> Value {
    json!([place.entry.0, place.part])
}

fn request(request: &RequestRecord) -> Value {
    json!({
        "at_ms": request.at_ms,
        "preamble": request.preamble.map(|id| id.to_string()),
        "head": request.head.map(|head| head.0),
        "batch": request.batch,
        "model": request.model,
        "agent": request.agent,
        "limit": request.limit,
        "before": request.before,
        "window": request.window,
        "sent": request.sent,
        "cached": request.cached,
        "output": request.output,
        "cost_micros": request.cost_micros,
        "edits": request.edits,
        "answer": request.answer,
        "is_cut": request.is_cut,
        "is_aside": request.is_aside,
        "is_bypassed": request.is_bypassed,
    })
}

fn note(note: Note) -> Value {
    let mut value = json!({"at_ms": note.at_ms, "handle": note.handle.to_string()});
    match note.content {
        NoteContent::Unread(answer) => value["unread"] = Value::String(answer),
        NoteContent::Regret(RegretNote { batch, how, by, tokens, again }) => {
            let by = by.map(|by| by.0);
            let how = how.as_str();
            value["regret"] =
                json!({"batch": batch, "how": how, "by": by, "tokens": tokens, "again": again});
        }
    }
    value
}

/// What a line of an export says.
#[derive(Debug)]
pub(super) enum ExportLine {
    /// A session begins.
    Session(SessionId, NewSession),
    /// Something of the session.
    Record(Record),
    /// The last line.
    End { lines: u64, entries: u64, checksum: String },
}

/// Reads a line; the error says what is wrong with it.
pub(super) fn read(line: &str) -> Result<ExportLine, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else { return Err("it is not an object".to_owned()) };
    let Some((kind, value)) = object.into_iter().next() else {
        return Err("it is empty".to_owned());
    };
    let mut fields = LineFields { kind: kind.clone(), object: Map::new() };
    let value = match value {
        Value::Object(object) => {
            fields.object = object;
            Value::Null
        }
        value => value,
    };
    let record = match kind.as_str() {
        "session" => {
            let (id, new) = read_session(&mut fields)?;
            return Ok(ExportLine::Session(id, new));
        }
        "end" => {
            return Ok(ExportLine::End {
                lines: fields.number("lines")?,
                entries: fields.number("entries")?,
                checksum: fields.text("blake3")?,
            });
        }
        "entry" => read_entry(&mut fields)?,
        "batch" => read_batch(&mut fields)?,
        "request" => read_request(&mut fields)?,
        "note" => read_note(&mut fields)?,
        "derived" => {
            let (key, value) = (fields.text("key")?, fields.text("value")?);
            let note = unread::of_derived(&key, &value).map(Record::Note);
            note.unwrap_or(Record::Derived { key, value })
        }
        "undo" => Record::Undo(value.as_u64().ok_or("`undo` must be the number of a batch")?),
        "preamble" => match value {
            Value::String(content) => Record::Preamble(content),
            _ => return Err("`preamble` must be a text".to_owned()),
        },
        "pins" => {
            let seqs = value.as_array().into_iter().flatten().map(|seq| seq.as_u64().map(Seq));
            Record::Pins(seqs.collect::<Option<_>>().ok_or("`pins` must be numbers of entries")?)
        }
        _ => return Err(format!("there is no record {kind:?}")),
    };
    Ok(ExportLine::Record(record))
}

fn read_session(fields: &mut LineFields) -> Result<(SessionId, NewSession), String> {
    let id = fields.parsed("id")?;
    let new = NewSession {
        owner: fields.parsed::<Owner>("owner")?,
        dialect: fields.text("dialect")?,
        name: fields.text("name")?,
        continues: fields.optional_parsed("continues")?,
        group: fields.optional_number("group")?,
        begun_ms: fields.time("begun_ms")?,
        origin: Origin {
            project: fields.later_text("project")?,
            agent: fields.later_text("agent")?,
            file: fields.later_text("file")?,
            offset: fields.later_number("offset")?.unwrap_or(0),
        },
        opening: fields.later_text("opening")?,
    };
    Ok((id, new))
}

fn read_entry(fields: &mut LineFields) -> Result<Record, String> {
    let entry = Entry {
        seq: Seq(fields.number("seq")?),
        parent: fields.optional_number("parent")?.map(Seq),
        link: Link(fields.hexadecimal("link")?),
        round: fields.number("round")?,
        form: fields.text("form")?,
        raw: fields.text("raw")?,
        at_ms: fields.time("at_ms")?,
        source_ms: if fields.object.contains_key("source_ms") {
            Some(fields.time("source_ms")?)
        } else {
            None
        },
    };
    let text = if fields.object.contains_key("text") {
        fields.text("text")?
    } else {
        searchable(&entry.form, &entry.raw)
    };
    Ok(Record::Entry { entry, text })
}

fn read_batch(fields: &mut LineFields) -> Result<Record, String> {
    let edits = fields.list("edits")?.into_iter().map(read_edit).collect::<Result<_, _>>()?;
    let variants = fields.list("variants")?.into_iter().map(|value| {
        let mut fields = LineFields::of("variants", value)?;
        let original = if fields.object.contains_key("text") {
            Original::Text(fields.text("text")?)
        } else {
            Original::Json(fields.text("json")?)
        };
        Ok((fields.handle()?, original))
    });
    let variants = variants.collect::<Result<_, String>>()?;
    let head = Seq(fields.number("head")?);
    let batch = NewBatch {
        after: fields.number("after")?,
        at_ms: fields.time("at_ms")?,
        batch: Batch { head, edits, state: fields.text("state")?, variants },
        receipt: fields.text("receipt")?,
    };
    Ok(Record::Batch { number: fields.number("number")?, batch })
}

fn read_edit(value: Value) -> Result<Edit, String> {
    let Value::Object(object) = value else { return Err("an edit must be an object".to_owned()) };
    let Some((kind, value)) = object.into_iter().next() else {
        return Err("an edit is empty".to_owned());
    };
    let mut fields = LineFields::of(&kind, value)?;
    Ok(match kind.as_str() {
        "stub" => {
            let (at, handle) = (fields.place("at")?, fields.handle()?);
            Edit::Stub { at, handle, text: fields.text("text")? }
        }
        "clip" => {
            let (at, handle) = (fields.place("at")?, fields.handle()?);
            Edit::Clip { at, handle, text: fields.text("text")? }
        }
        "fold" => {
            let spans = fields.list("spans")?.into_iter().map(|span| {
                let (first, last) = pair(&span).ok_or("a span must be two numbers")?;
                Ok(Span { first: Seq(first), last: Seq(last) })
            });
            let spans = spans.collect::<Result<_, String>>()?;
            let blocks = fields.list("blocks")?.into_iter().map(|block| read_place(&block));
            let blocks = blocks.collect::<Option<_>>().ok_or("a block must be two numbers")?;
            let sum = fields.hexadecimal("sum")?;
            Edit::Fold(Fold { spans, blocks, sum, text: fields.text("text")? })
        }
        "insert" => {
            Edit::Insert { after: Seq(fields.number("after")?), text: fields.text("text")? }
        }
        _ => return Err(format!("there is no edit {kind:?}")),
    })
}

fn read_request(fields: &mut LineFields) -> Result<Record, String> {
    Ok(Record::Request(RequestRecord {
        at_ms: fields.time("at_ms")?,
        preamble: fields.optional_parsed::<PreambleId>("preamble")?,
        head: fields.optional_number("head")?.map(Seq),
        batch: fields.number("batch")?,
        model: fields.text("model")?,
        agent: fields.text("agent")?,
        limit: fields.number("limit")?,
        before: fields.number("before")?,
        window: fields.number("window")?,
        sent: fields.number("sent")?,
        cached: fields.number("cached")?,
        output: fields.number("output")?,
        cost_micros: fields.optional_number("cost_micros")?,
        edits: fields.number("edits")?,
        answer: match fields.take("answer")? {
            Value::Null => None,
            Value::String(answer) => Some(answer),
            _ => return Err(fields.bad("answer", "a text")),
        },
        is_cut: fields.flag("is_cut")?,
        is_aside: fields.flag("is_aside")?,
        is_bypassed: fields.flag("is_bypassed")?,
    }))
}

fn read_note(fields: &mut LineFields) -> Result<Record, String> {
    let (at_ms, handle) = (fields.time("at_ms")?, fields.handle()?);
    let content = if fields.object.contains_key("unread") {
        NoteContent::Unread(fields.text("unread")?)
    } else {
        let mut regret = LineFields::of("note.regret", fields.take("regret")?)?;
        let (batch, how) = (regret.number("batch")?, regret.text("how")?);
        let how = Regretted::ALL.into_iter().find(|known| known.as_str() == how);
        let how = how.ok_or_else(|| regret.bad("how", "how it was noticed"))?;
        let mut note = RegretNote { batch, how, by: None, tokens: 0, again: false };
        // Earlier exports do not say more.
        if regret.object.contains_key("by") {
            note.by = regret.optional_number("by")?.map(Seq);
            note.tokens = regret.number("tokens")?;
            note.again = regret.flag("again")?;
        }
        NoteContent::Regret(note)
    };
    Ok(Record::Note(Note { at_ms, handle, content }))
}

fn pair(value: &Value) -> Option<(u64, u64)> {
    match value.as_array()?.as_slice() {
        [one, other] => Some((one.as_u64()?, other.as_u64()?)),
        _ => None,
    }
}

fn read_place(value: &Value) -> Option<Place> {
    let (entry, part) = pair(value)?;
    Some(Place { entry: Seq(entry), part: usize::try_from(part).ok()? })
}

/// The fields of an object, taken out one by one so that long texts are not copied.
struct LineFields {
    kind: String,
    object: Map<String, Value>,
}

impl LineFields {
    fn of(kind: &str, value: Value) -> Result<Self, String> {
        match value {
            Value::Object(object) => Ok(Self { kind: kind.to_owned(), object }),
            _ => Err(format!("`{kind}` must be an object")),
        }
    }

    fn bad(&self, key: &str, wanted: &str) -> String {
        format!("`{}.{key}` must be {wanted}", self.kind)
    }

    fn take(&mut self, key: &str) -> Result<Value, String> {
        let found = self.object.get_mut(key).map(Value::take);
        found.ok_or_else(|| format!("`{}.{key}` is missing", self.kind))
    }

    fn text(&mut self, key: &str) -> Result<String, String> {
        match self.take(key)? {
            Value::String(text) => Ok(text),
            _ => Err(self.bad(key, "a text")),
        }
    }

    fn number(&mut self, key: &str) -> Result<u64, String> {
        self.take(key)?.as_u64().ok_or_else(|| self.bad(key, "a number"))
    }

    fn optional_number(&mut self, key: &str) -> Result<Option<u64>, String> {
        match self.take(key)? {
            Value::Null => Ok(None),
            value => value.as_u64().map(Some).ok_or_else(|| self.bad(key, "a number")),
        }
    }

    /// A text that earlier exports do not have.
    fn later_text(&mut self, key: &str) -> Result<String, String> {
        if self.object.contains_key(key) { self.text(key) } else { Ok(String::new()) }
    }

    /// A number that earlier exports do not have.
    fn later_number(&mut self, key: &str) -> Result<Option<u64>, String> {
        if self.object.contains_key(key) { self.optional_number(key) } else { Ok(None) }
    }

    fn time(&mut self, key: &str) -> Result<i64, String> {
        self.take(key)?.as_i64().ok_or_else(|| self.bad(key, "milliseconds since 1970"))
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        self.take(key)?.as_bool().ok_or_else(|| self.bad(key, "true or false"))
    }

    fn list(&mut self, key: &str) -> Result<Vec<Value>, String> {
        match self.take(key)? {
            Value::Array(list) => Ok(list),
            _ => Err(self.bad(key, "a list")),
        }
    }

    fn parsed<T: std::str::FromStr>(&mut self, key: &str) -> Result<T, String> {
        self.text(key)?.parse().map_err(|_| self.bad(key, "32 hexadecimal digits"))
    }

    fn optional_parsed<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        match self.object.get(key) {
            Some(Value::Null) => Ok(None),
            _ => self.parsed(key).map(Some),
        }
    }

    fn hexadecimal(&mut self, key: &str) -> Result<u128, String> {
        let digits = self.text(key)?;
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
        number.ok_or_else(|| self.bad(key, "32 hexadecimal digits"))
    }

    fn handle(&mut self) -> Result<Handle, String> {
        let handle = self.text("handle")?;
        Handle::parse(&handle).ok_or_else(|| self.bad("handle", "a handle"))
    }

    fn place(&mut self, key: &str) -> Result<Place, String> {
        read_place(&self.take(key)?).ok_or_else(|| self.bad(key, "an entry and a part"))
    }
}
