//! What is around a row: the envelope of a change event, and the messages that are none.
//!
//! Never looks into a row.

use super::super::json::{Json, Kind};
use crate::record::Fault;

/// What a message says about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Created, read by a snapshot, or updated.
    Put,
    Delete,
    /// All rows of the table.
    Truncate,
}

/// A change event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) op: Op,
    /// `op` as it is written.
    pub(super) op_name: &'static str,
    pub(super) before: Option<Json<'a>>,
    after: Option<Json<'a>>,
    /// Where the change comes from, an object.
    pub(super) source: Json<'a>,
    /// When the connector wrote the event: another time with every resend.
    pub(super) ts_ms: Option<Json<'a>>,
    /// The schema of all of this, where the message carries it.
    pub(super) schema: Option<Json<'a>>,
}

/// A value without the `{schema, payload}` of Kafka Connect, and the schema where there is one.
pub(super) fn unwrapped(message: Json<'_>) -> (Json<'_>, Option<Json<'_>>) {
    if message.members().any(|(name, _)| name != "schema" && name != "payload") {
        return (message, None);
    }
    match message.find(["payload", "schema"]) {
        [Some(payload), schema] => (payload, schema),
        [None, _] => (message, None),
    }
}

fn unknown(found: &str) -> Fault {
    let reason = format!(
        "expected a change event of Debezium {{op, before, after, source}}, found {found}; what ExtractNewRecordState has flattened has no \
         version: leave that transform out"
    );
    Fault::new("unknown_record", reason)
}

impl<'a> Event<'a> {
    /// Reads the envelope; `None` where the message changes no row.
    ///
    /// # Errors
    /// Something that is no message of Debezium.
    pub(super) fn read(message: Json<'a>) -> Result<Option<Self>, Fault> {
        let (payload, schema) = unwrapped(message);
        if payload.is_null() {
            return Ok(None);
        }
        if payload.kind() != Kind::Object {
            return Err(unknown(payload.kind().as_str()));
        }
        let [op, before, after, source, ts_ms] = payload.find(["op", "before", "after", "source", "ts_ms"]);
        let Some(op) = op.and_then(Json::present) else {
            return if changes_nothing(payload) { Ok(None) } else { Err(unknown("an object without op")) };
        };
        let (op, op_name) = match op.unescaped().as_ref().map(|(op, _)| op.as_ref()) {
            Some("c") => (Op::Put, "c"),
            Some("r") => (Op::Put, "r"),
            Some("u") => (Op::Put, "u"),
            Some("d") => (Op::Delete, "d"),
            Some("t") => (Op::Truncate, "t"),
            Some("m") => return Ok(None),
            _ => return Err(unknown("an op other than c, r, u, d, t and m")),
        };
        let source = source.and_then(Json::object).ok_or_else(|| unusable("expected source to be an object, found something else"))?;
        Ok(Some(Self { op, op_name, before, after, source, ts_ms, schema }))
    }

    /// The table as the source names it, with what it is in: a schema (PostgreSQL, SQL Server, others), a database (MySQL, MariaDB), a namespace
    /// (Lindorm), a keyspace (Vitess, Cassandra).
    ///
    /// # Errors
    /// A source that names no table, or not what it is in.
    pub(super) fn table(&self) -> Result<String, Fault> {
        let [connector, namespace, schema, keyspace, db, table, collection] =
            self.source.find(["connector", "namespace", "schema", "keyspace", "db", "table", "collection"]);
        let name = |value: Option<Json<'a>>| value.and_then(|value| Some(value.unescaped()?.0)).filter(|name| !name.is_empty());
        let (within, what) = match name(connector).as_deref() {
            Some("mysql" | "mariadb") => (name(db), "source.db"),
            Some("postgresql" | "sqlserver") => (name(schema), "source.schema"),
            _ => {
                let first = [namespace, schema, keyspace, db].into_iter().find_map(name);
                (first, "source.namespace, source.schema, source.keyspace or source.db")
            }
        };
        let missing = |what: &str| unusable(&format!("expected {what} to be a name, found none"));
        let table = name(table).or_else(|| name(collection)).ok_or_else(|| missing("source.table"))?;
        Ok(format!("{}.{table}", within.ok_or_else(|| missing(what))?))
    }

    /// The row after the change.
    ///
    /// # Errors
    /// A row that is not there, or is no object; MongoDB's is a text, which is not read.
    pub(super) fn row_after(&self) -> Result<Json<'a>, Fault> {
        self.after.and_then(Json::object).ok_or_else(|| {
            let found = match self.after.map(Json::kind) {
                None => "none",
                Some(Kind::String) => "a text: documents of MongoDB are not supported",
                Some(kind) => kind.as_str(),
            };
            unusable(&format!("expected after to be the whole row as an object, as op is {}, found {found}", self.op_name))
        })
    }
}

fn unusable(reason: &str) -> Fault {
    Fault::new("unusable_revision", reason)
}

/// Whether a message without `op` is one of those that Debezium writes beside its changes: a heartbeat, the begin or end of a transaction, or a
/// change of a table's definition (Debezium documentation, "Heartbeat", "Transaction metadata", "Schema change topic").
fn changes_nothing(payload: Json<'_>) -> bool {
    let only = |names: &[&str]| payload.members().all(|(name, _)| names.contains(&name.as_ref()));
    let [ts_ms, status, id, database, ddl, table_changes] = payload.find(["ts_ms", "status", "id", "databaseName", "ddl", "tableChanges"]);
    let is_heartbeat = ts_ms.is_some() && only(&["ts_ms"]);
    let begins_or_ends = status.and_then(Json::unescaped).is_some_and(|(status, _)| status == "BEGIN" || status == "END");
    let is_transaction = begins_or_ends && id.is_some() && only(&["status", "id", "event_count", "data_collections", "ts_ms"]);
    let is_definition = database.is_some() && (ddl.is_some() || table_changes.is_some());
    is_heartbeat || is_transaction || is_definition
}
