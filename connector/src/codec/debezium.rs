//! Change events of Debezium in JSON, with and without their schema, and of what writes its form: Lindorm's data subscription (DebeziumV2), Debezium
//! Server without Kafka (Debezium documentation, "Data change events" of each connector; Kafka Connect, `JsonConverter`).
//!
//! | message | becomes |
//! |---|---|
//! | `op` c, r, u | a put of `after`; of an update whose key changed, a delete of the old id before it |
//! | `op` d | a delete, its id from the message key or `before` |
//! | `op` m, a null payload, a heartbeat, a transaction's begin and end, a change of a table's definition | nothing to write |
//! | `op` t, any other | a fault: a truncate names no row |
//!
//! The **version** is the place of the change in the database's log, always of `source` and so the same in every delivery, and `external_gte`:
//!
//! | connector | version | why it is sound, and where not |
//! |---|---|---|
//! | mysql, mariadb | binlog file, position, row in the event | writers of a row come one after another into the binlog. It begins anew when binlogs are reset, and is another one on another server, so also after a failover, with GTIDs or without; the events of a compressed transaction have no positions of their own |
//! | postgresql | `lsn` | writers of a row wait for each other, so their places in the log are in order. It goes on over a failover to a replica that had everything, begins anew in a new cluster (dump and restore) |
//! | sqlserver | `change_lsn`, in a snapshot `commit_lsn` | as above; a deferred update writes a delete and an insert with one number, of which the later to arrive wins. It begins anew in a database that is restored elsewhere |
//! | Lindorm (none, `source.version` v1.0) | `source.ts_ms` | there is nothing else: two changes of a row in one millisecond tie, and the later to arrive wins |
//! | any other | none | refused, unless the time of the change is to be the version of every connector ([`Versions::Timestamp`](super::Versions)) |
//!
//! Snapshot rows take the same field, so that a later snapshot mends what was missed. A transaction that wrote a row before the point of a snapshot
//! of PostgreSQL or SQL Server and was committed after it has a lower number than the snapshot's row and is taken for older. Where a line
//! begins anew, what comes is stale until the index is built again.
//!
//! The **document** is the row, its values as they came. Where the message carries its schema, `org.apache.kafka.connect.data.Decimal` and
//! `io.debezium.data.VariableScaleDecimal` become the number that they are ([`decimals`]). The **metadata** is `{table, id, version, op, ts_ms, source}`,
//! the last as it came, under a name of its own since its `version` and `table` mean something else.
//!
//! Never makes an id or a version of anything but the message, never writes a row of which a value was not sent ([`unavailable`]).

mod decimals;
mod envelope;
mod key;
mod row;
mod unavailable;
mod versions;

use super::choices::{Metadata, Rows};
use super::column::{RowWriter, write_row};
use super::ion_json;
use super::json::Json;
use super::json_write::Writer;
use super::{Content, Decoder, Table, UserRecord};
use crate::error::Error;
use crate::memory;
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Change, Document, Revision, VersionType};
use decimals::Decimal;
use envelope::{Event, Op};
use key::Key;
use row::Row;
use versions::Line;

/// The units of one message: at least one.
pub(super) fn decode(decoder: &mut Decoder, user_record: &UserRecord, notes: &mut Notes) -> Vec<Content> {
    message(decoder, user_record, notes).unwrap_or_else(|fault| vec![Content::Fault(fault)])
}

/// What all revisions of one message share.
struct Shared<'a> {
    table: Table,
    version: u64,
    committed: Option<u64>,
    event: Event<'a>,
}

fn message(decoder: &mut Decoder, user_record: &UserRecord, notes: &mut Notes) -> Result<Vec<Content>, Fault> {
    let Some(event) = Event::read(Json::parse(&user_record.payload)?)? else { return Ok(vec![Content::Skip(Skip::NoChange)]) };
    let table = decoder.table(&event.table()?);
    if table.options.unmapped || table.options.unread {
        return Ok(vec![Content::Skip(Skip::Unmapped)]);
    }
    if table.options.rows == Rows::Cells {
        let what = format!("{}: expected rows = \"full\" for a table of Debezium, found \"cells\"", table.name);
        let help = "its changes carry whole rows, whose columns have no versions of their own; leave rows, or --rows, out";
        return Ok(vec![Content::Refused(Error::usage(what).help(help))]);
    }
    let line = match Line::of(event.source, decoder.options.versions) {
        Ok(line) => line,
        Err(refused) => return Ok(vec![Content::Refused(refused)]),
    };
    let version = line.version(event.source)?;
    let committed = event.source.find(["ts_ms"])[0].and_then(Json::version);
    let key_json = user_record.message.as_ref().and_then(|message| message.key.as_deref());
    let shared = Shared { table, version, committed, event };
    let units = match shared.event.op {
        Op::Truncate => {
            let reason = "expected a change of a row, found a truncate (op t), which names none: the table's documents stay; delete the index, or \
                          its documents of this table, and read what came after again";
            return Err(Fault::new("truncate", reason));
        }
        Op::Delete => vec![deleted(&shared, key_json, &mut decoder.json, notes)?],
        Op::Put => put(&shared, key_json, &mut decoder.json, notes)?,
    };
    Ok(units.into_iter().map(Content::Revision).collect())
}

fn deleted(shared: &Shared<'_>, key_json: Option<&[u8]>, json: &mut Vec<u8>, notes: &mut Notes) -> Result<Revision, Fault> {
    let decimals = decimals::of_image(shared.event.schema, "before");
    let key = Key::new(&shared.table, key_json, &decimals)?;
    let before = shared.event.before.and_then(Json::object).map(|before| Row::new(before, &key.of_its_columns(&decimals))).transpose()?;
    shared.revision(key.of_deleted(before.as_ref())?, Change::Delete, json, notes)
}

fn put(shared: &Shared<'_>, key_json: Option<&[u8]>, json: &mut Vec<u8>, notes: &mut Notes) -> Result<Vec<Revision>, Fault> {
    let after = shared.event.row_after()?;
    if let Some((column, _)) = after.members().find(|(_, value)| unavailable::is_unavailable(*value)) {
        return Err(unavailable::fault(&column));
    }
    let decimals = decimals::of_image(shared.event.schema, "after");
    let key = Key::new(&shared.table, key_json, &decimals)?;
    let row = Row::new(after, &decimals)?;
    let id = key.of_row(&row)?;
    let before = shared.event.before.and_then(Json::object).filter(|_| shared.event.op_name == "u");
    let before = before.map(|before| Row::new(before, &key.of_its_columns(&decimals))).transpose()?;
    let old_id = before.and_then(|before| key.of_before(&before)).filter(|old_id| *old_id != id);

    let document = document(shared, after, row, &decimals, json, notes)?;
    let mut revisions = Vec::new();
    if let Some(old_id) = old_id {
        revisions.push(shared.revision(old_id, Change::Delete, json, notes)?);
    }
    revisions.push(shared.revision(id, Change::Put(document), json, notes)?);
    Ok(revisions)
}

/// The row as a document, its decimals as the table has them.
fn document(
    shared: &Shared<'_>,
    after: Json<'_>,
    row: Row<'_>,
    decimals: &[(String, Decimal)],
    json: &mut Vec<u8>,
    notes: &mut Notes,
) -> Result<Document, Fault> {
    let options = &shared.table.options;
    let row = match options.rules.decimals {
        ion_json::Decimals::Number => row,
        ion_json::Decimals::String => Row::with_texts(after, decimals)?,
    };
    json.clear();
    json.reserve(after.text().len());
    if decimals.is_empty() {
        write_row(after, options, json, notes)?;
        return Ok(Document(memory::copy(json)));
    }
    let mut members = after.members();
    let mut document = RowWriter::new(options, json, notes);
    for (name, value) in members.by_ref() {
        let value = row.decimal(&name).unwrap_or(value);
        document.column(name, value)?;
    }
    document.end()?;
    notes.lone_surrogates += members.lone_surrogates;
    Ok(Document(memory::copy(json)))
}

impl Shared<'_> {
    fn revision(&self, id: String, change: Change, json: &mut Vec<u8>, notes: &mut Notes) -> Result<Revision, Fault> {
        let metadata = match self.table.options.metadata {
            Metadata::None => None,
            Metadata::Field | Metadata::History | Metadata::Committed => Some(self.metadata(&id, json, notes)?),
        };
        Ok(Revision {
            table: self.table.name.clone(),
            id,
            version: self.version,
            version_type: VersionType::ExternalGte,
            change,
            metadata,
            committed: self.committed,
        })
    }

    /// The source's own metadata as an object: `table`, `id`, `version`, `op`, `ts_ms`, `source`; without `table` the same as `metadata` of a
    /// committed view.
    fn metadata(&self, id: &str, json: &mut Vec<u8>, notes: &mut Notes) -> Result<Document, Fault> {
        json.clear();
        let mut writer = Writer::new(&self.table.options.rules, json, notes);
        let around = match self.table.options.metadata {
            Metadata::Committed => {
                let mut view = writer.open();
                writer.name(&mut view, "metadata".into())?;
                Some(view)
            }
            _ => None,
        };
        let depth = if around.is_some() { 3 } else { 2 };
        let mut object = writer.open();
        if around.is_none() {
            writer.name(&mut object, "table".into())?;
            writer.text(&self.table.name)?;
        }
        writer.name(&mut object, "id".into())?;
        writer.text(id)?;
        writer.name(&mut object, "version".into())?;
        writer.verbatim(itoa::Buffer::new().format(self.version))?;
        writer.name(&mut object, "op".into())?;
        writer.text(self.event.op_name)?;
        if let Some(ts_ms) = self.event.ts_ms {
            writer.name(&mut object, "ts_ms".into())?;
            writer.value(ts_ms, depth)?;
        }
        writer.name(&mut object, "source".into())?;
        writer.value(self.event.source, depth)?;
        writer.close(object)?;
        if let Some(view) = around {
            writer.close(view)?;
        }
        Ok(Document(memory::copy(json)))
    }
}

#[cfg(test)]
mod tests;
