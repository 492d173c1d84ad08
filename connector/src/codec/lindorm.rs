//! Row changes of Lindorm Streams in their legacy format, `{op, table, ts, keyOnly, data[{type, name, ts, value}]}`; a message as DebeziumV2 is
//! handed on.
//!
//! Numbers may be numbers or text; an absent, null or empty `ts` of a column is the row's. Never guesses: an operation that is not known, a
//! column without a name or a version that is none is a fault. `type` is not trusted, and not read.

use std::borrow::Cow;
use std::collections::HashMap;

use super::choices::{ColumnType, Metadata, Rows, TableOptions};
use super::column::{RowWriter, write_column};
use super::ion_json::{MAX_FIELDS, check_room, write_string};
use super::json::{Json, Kind};
use super::{Content, Decoder, Table, UserRecord, debezium, row_key};
use crate::error::Error;
use crate::memory;
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Cell, Cells, Change, Document, MAX_VERSION, Revision, VersionType};

/// The unit of one message; of a DebeziumV2 message those that its change comes to.
pub(super) fn decode(decoder: &mut Decoder, user_record: &UserRecord, notes: &mut Notes) -> Vec<Content> {
    let message = match Json::parse(&user_record.payload) {
        Ok(message) => message,
        Err(fault) => return vec![Content::Fault(fault)],
    };
    let members = message.find(["payload", "op", "table", "ts", "keyOnly", "data"]);
    let [payload, op, .., data] = members;
    let is_legacy = op.is_some_and(|op| op.kind() == Kind::String) && data.is_some_and(|data| data.kind() == Kind::Array);
    match (is_legacy, payload.and_then(Json::object)) {
        (false, Some(_)) => debezium::decode(decoder, user_record, notes),
        (true, None) => vec![legacy(decoder, members, notes).unwrap_or_else(Content::Fault)],
        (true, Some(_)) => vec![Content::Fault(unknown("found both in one message"))],
        (false, None) => vec![Content::Fault(unknown("found neither"))],
    }
}

fn unknown(found: &str) -> Fault {
    let reason = format!(
        "expected a message of Lindorm, in the legacy format (a text op and a list data) or as DebeziumV2 (an object payload), {found}"
    );
    Fault::new("unknown_record", reason)
}

fn unusable(reason: impl Into<String>) -> Fault {
    Fault::new("unusable_revision", reason)
}

/// What a message does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Put,
    DeleteFamily,
}

fn legacy(decoder: &mut Decoder, members: [Option<Json<'_>>; 6], notes: &mut Notes) -> Result<Content, Fault> {
    let [_, op, table, ts, key_only, data] = members;
    let name = table.and_then(|table| table.string(notes)).filter(|name| !name.is_empty());
    let table = decoder.table(&name.ok_or_else(|| unusable("expected table to be a non-empty text, found something else"))?);
    let options = &table.options;
    if options.unmapped || options.unread {
        return Ok(Content::Skip(Skip::Unmapped));
    }
    if is_key_only(key_only)? {
        return Ok(Content::Skip(Skip::NoChange));
    }
    let op = match op.and_then(|op| op.string(notes)).as_deref() {
        Some("Put") => Op::Put,
        Some("DeleteFamily") => Op::DeleteFamily,
        _ => return Err(Fault::new("unknown_record", "expected op to be Put or DeleteFamily, found something else")),
    };
    if options.key.is_empty() {
        let name = &table.name;
        return Ok(Content::Refused(
            Error::usage(format!(
                "table {name}: expected its key columns, which no message of Lindorm in the legacy format tells, found none"
            ))
            .help(format!("name them, in their order, with --key {name}=COLUMN[,COLUMN], or as key in a [[table]]")),
        ));
    }
    let row_version = version(ts, || "ts".to_owned())?;
    let columns = columns(data.unwrap_or(Json::NULL), row_version, options, notes)?;
    let id = row_key::id(&options.key, |name| columns.iter().find(|column| column.name == name).map(|column| column.value))?;
    let Some(version) = columns.iter().filter_map(|column| column.version).chain(row_version).max() else {
        if op == Op::DeleteFamily {
            return Ok(Content::Skip(Skip::NoChange));
        }
        return Err(unusable("expected a ts in the row or in its columns, found none"));
    };
    if let Some(without) = columns.iter().find(|column| op == Op::Put && column.version.is_none()) {
        let reason = format!("expected a ts in the row or in the column {}, found none in either of them", without.name);
        return Err(unusable(reason));
    }
    let change = match (op, options.rows) {
        (Op::Put, Rows::Full) => put(columns, options, &mut decoder.json, notes)?,
        (Op::Put, Rows::Cells) => cells(columns, options, &mut decoder.json, notes)?,
        (Op::DeleteFamily, Rows::Full) => Change::Delete,
        (Op::DeleteFamily, Rows::Cells) => Change::Cells(Cells { erased: Some(version), columns: Vec::new() }),
    };
    let metadata = match options.metadata {
        Metadata::None => None,
        Metadata::Field | Metadata::History => Some(metadata_document(Some(&table), &id, version, op, row_version, &mut decoder.json)),
        Metadata::Committed => Some(metadata_document(None, &id, version, op, row_version, &mut decoder.json)),
    };
    let version_type = VersionType::ExternalGte;
    Ok(Content::Revision(Revision { table: table.name, id, version, version_type, change, metadata, committed: None }))
}

fn is_key_only(key_only: Option<Json<'_>>) -> Result<bool, Fault> {
    match key_only.map(Json::text) {
        Some("true" | "\"true\"") => Ok(true),
        None | Some("false" | "\"false\"" | "null" | "\"\"") => Ok(false),
        Some(_) => Err(unusable("expected keyOnly to be true or false, found something else")),
    }
}

/// A version, `None` where it is absent, null or empty; `place` names it.
fn version(ts: Option<Json<'_>>, place: impl Fn() -> String) -> Result<Option<u64>, Fault> {
    match ts.filter(|ts| !matches!(ts.text(), "null" | "\"\"")) {
        None => Ok(None),
        Some(ts) => ts.version().map(Some).ok_or_else(|| {
            unusable(format!(
                "expected {} to be a whole number from 0 to {MAX_VERSION}, or a text of its digits, found something else",
                place()
            ))
        }),
    }
}

/// One column of a message.
struct Column<'a> {
    name: Cow<'a, str>,
    /// Its own version or the row's.
    version: Option<u64>,
    value: Json<'a>,
}

/// The columns in their order; of those with one name the one with the highest version is kept, of equal versions the last.
fn columns<'a>(data: Json<'a>, row_version: Option<u64>, options: &TableOptions, notes: &mut Notes) -> Result<Vec<Column<'a>>, Fault> {
    let mut columns: Vec<Column<'a>> = Vec::new();
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
    for (i, entry) in data.items().enumerate() {
        if i == MAX_FIELDS {
            return Err(Fault::new("too_many_values", format!("expected at most {MAX_FIELDS} columns in one message, found more")));
        }
        let [name, ts, value] = entry.find(["name", "ts", "value"]);
        let name = name.and_then(|name| name.string(notes));
        let name = name.ok_or_else(|| unusable(format!("expected data[{i}] to be an object with a text as name, found something else")))?;
        let version = version(ts, || format!("the ts of the column {name}"))?.or(row_version);
        let value = value.unwrap_or(Json::NULL);
        let is_null = value.text() == "\"\"" && options.types.get(name.as_ref()) != Some(&ColumnType::String);
        let column = Column { name, version, value: if is_null { Json::NULL } else { value } };
        match places.get(&column.name) {
            Some(&place) if columns[place].version > column.version => {}
            Some(&place) => columns[place] = column,
            None => {
                places.insert(column.name.clone(), columns.len());
                columns.push(column);
            }
        }
    }
    Ok(columns)
}

/// The whole row as a document.
fn put(columns: Vec<Column<'_>>, options: &TableOptions, json: &mut Vec<u8>, notes: &mut Notes) -> Result<Change, Fault> {
    json.clear();
    let mut document = RowWriter::new(options, json, notes);
    for Column { name, value, .. } in columns {
        document.column(name, value)?;
    }
    document.end()?;
    Ok(Change::Put(Document(memory::copy(json))))
}

/// Each column as a cell.
fn cells(mut columns: Vec<Column<'_>>, options: &TableOptions, json: &mut Vec<u8>, notes: &mut Notes) -> Result<Change, Fault> {
    columns.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    json.clear();
    let mut cells = Vec::with_capacity(columns.len());
    for Column { name, version, value } in columns {
        let begin = json.len();
        write_column(&name, value, options, json, notes)?;
        check_room(json, options.rules.limit, 0, &options.rules)?;
        cells.push((name.into_owned(), version.unwrap_or_default(), begin..json.len()));
    }
    let values = memory::copy(json);
    let columns = cells.into_iter().map(|(name, version, place)| Cell { name, version, value: values.slice(place) }).collect();
    Ok(Change::Cells(Cells { erased: None, columns }))
}

/// The source's own metadata as an object: `table`, `id`, `version`, `op`, `ts`; without a table the same as `metadata` of a committed view.
fn metadata_document(table: Option<&Table>, id: &str, version: u64, op: Op, ts: Option<u64>, json: &mut Vec<u8>) -> Document {
    json.clear();
    match table {
        None => json.extend_from_slice(b"{\"metadata\":{\"id\":"),
        Some(table) => {
            json.extend_from_slice(b"{\"table\":");
            write_string(&table.name, json);
            json.extend_from_slice(b",\"id\":");
        }
    }
    write_string(id, json);
    json.extend_from_slice(b",\"version\":");
    json.extend_from_slice(itoa::Buffer::new().format(version).as_bytes());
    json.extend_from_slice(match op {
        Op::Put => b",\"op\":\"Put\",\"ts\":",
        Op::DeleteFamily => b",\"op\":\"DeleteFamily\",\"ts\":",
    });
    match ts {
        Some(ts) => json.extend_from_slice(itoa::Buffer::new().format(ts).as_bytes()),
        None => json.extend_from_slice(b"null"),
    }
    json.extend_from_slice(if table.is_none() { b"}}" } else { b"}" });
    Document(memory::copy(json))
}

#[cfg(test)]
mod tests;
