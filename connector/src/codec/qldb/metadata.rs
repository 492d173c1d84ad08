//! What a revision carries of the ledger's own metadata, as an object. Decides nothing about the revision.

use super::super::Table;
use super::super::ion_binary::Value;
use super::super::ion_json::{self, write_value};
use super::super::ion_symbols::Symbols;
use crate::memory;
use crate::metrics::Notes;
use crate::record::Fault;
use crate::revision::Document;

/// Writes the source's own metadata as an object.
pub(super) struct MetadataWriter<'w, 'a> {
    pub(super) table: &'w Table,
    pub(super) symbols: &'w Symbols<'a>,
    pub(super) json: &'w mut Vec<u8>,
    pub(super) notes: &'w mut Notes,
}

/// Members that a record may have.
pub(super) type Members<'a, const N: usize> = [(&'static str, Option<Value<'a>>); N];

impl MetadataWriter<'_, '_> {
    /// The flat form: `table`, `id`, `version`, and these: `tableId`, `txId`, `txTime`, `blockAddress`, and `hash` for a history.
    pub(super) fn field<const N: usize>(&mut self, id: &str, version: u64, values: Members<'_, N>) -> Result<Document, Fault> {
        self.json.clear();
        self.json.push(b'{');
        self.name("table");
        ion_json::write_string(&self.table.name, self.json);
        self.id_and_version(id, version);
        for member in values {
            self.member(member)?;
        }
        self.json.push(b'}');
        Ok(Document(memory::copy(self.json)))
    }

    /// The committed view without its data: `blockAddress`, `hash`, `metadata` with `id`, `version`, `txTime`, `txId`.
    pub(super) fn committed_view(
        &mut self,
        id: &str,
        version: u64,
        around: Members<'_, 2>,
        inside: Members<'_, 2>,
    ) -> Result<Document, Fault> {
        self.json.clear();
        self.json.push(b'{');
        for member in around {
            self.member(member)?;
        }
        self.name("metadata");
        self.json.push(b'{');
        self.id_and_version(id, version);
        for member in inside {
            self.member(member)?;
        }
        self.json.extend_from_slice(b"}}");
        Ok(Document(memory::copy(self.json)))
    }

    fn id_and_version(&mut self, id: &str, version: u64) {
        self.name("id");
        ion_json::write_string(id, self.json);
        self.name("version");
        self.json.extend_from_slice(itoa::Buffer::new().format(version).as_bytes());
    }

    /// The name of a member, behind what stands before it.
    fn name(&mut self, name: &str) {
        if !self.json.ends_with(b"{") {
            self.json.push(b',');
        }
        ion_json::write_string(name, self.json);
        self.json.push(b':');
    }

    /// A member, where the record has it.
    fn member(&mut self, (name, value): (&str, Option<Value<'_>>)) -> Result<(), Fault> {
        let Some(value) = value else { return Ok(()) };
        self.name(name);
        write_value(value, self.symbols, &self.table.options.rules, self.json, self.notes)
    }
}
