//! What stands behind a name: an index, or an alias with one index that is written to, and what of its settings matters here.
//!
//! Only asks. An alias that cannot be written to, and a data stream, are refused with what to do.

use std::collections::HashMap;
use std::sync::Arc;

use opensearch::http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, Content, pattern_segment, segment};
use crate::plan::cells::FIELD as CELLS;
use crate::plan::outcome::{Class, Failure};
use crate::plan::tombstone::DELETED;

/// An index that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Whether the name is an alias.
    pub(super) alias: bool,
    /// The UUID of the index that is written to; servers that only stand in for OpenSearch give none.
    pub(super) uuid: Option<Arc<str>>,
}

/// An index as it was found under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) index: Index,
    /// The name of the index itself.
    pub(super) concrete: String,
    /// The setting `index.gc_deletes`, where it is set.
    pub(super) gc_deletes: Option<String>,
    /// Whether the fields of tombstones are mapped, so that filters and searches find them.
    pub(super) mapped: bool,
    /// Whether what is kept of the cells of a row is mapped, so that no field is made of it.
    pub(super) keeps_cells: bool,
    /// Whether the alias hides tombstones from its readers.
    pub(super) hides: bool,
    /// Whether it keeps documents as they were written, and not only what is searched of them.
    pub(super) keeps_source: bool,
    /// What else the name means: the other indices of an alias, which are read by it and not written to.
    pub(super) others: Vec<String>,
}

#[derive(Deserialize, Default)]
struct Described {
    #[serde(default)]
    aliases: HashMap<String, Alias>,
    #[serde(default)]
    settings: Settings,
    #[serde(default)]
    mappings: Mappings,
}

#[derive(Deserialize, Default)]
struct Alias {
    is_write_index: Option<bool>,
    filter: Option<Value>,
}

#[derive(Deserialize, Default)]
struct Settings {
    #[serde(default)]
    index: IndexSettings,
}

#[derive(Deserialize, Default)]
struct IndexSettings {
    uuid: Option<String>,
    gc_deletes: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Mappings {
    properties: Properties,
    #[serde(rename = "_source")]
    source: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    revsync: Value,
}

impl Described {
    fn seen(&self, concrete: &str, alias: Option<&Alias>) -> Seen {
        let fields = &self.mappings.properties.revsync["properties"];
        // However a filter is put together, one that hides tombstones names their field.
        let hides = alias.and_then(|alias| alias.filter.as_ref()).is_some_and(|filter| filter.to_string().contains(DELETED));
        Seen {
            index: Index { alias: alias.is_some(), uuid: self.settings.index.uuid.as_deref().map(Arc::from) },
            concrete: concrete.to_owned(),
            gc_deletes: self.settings.index.gc_deletes.clone(),
            mapped: fields["deleted"]["type"] == "boolean" && fields["time"]["type"] == "date",
            keeps_cells: fields[CELLS]["enabled"] == false,
            hides,
            keeps_source: self.mappings.source["enabled"] != false,
            others: Vec::new(),
        }
    }
}

/// The index that is written to under a name; `None` where there is none.
pub(super) async fn find_index(client: &Client, name: &str) -> Result<Option<Seen>, Failure> {
    described(client, name, &segment(name)).await?.map(|described| interpret(name, &described)).transpose()
}

/// Every index behind a name or a pattern, by its own name, and whether it has the fields of tombstones mapped. None where there is none.
pub(super) async fn find_all(client: &Client, pattern: &str) -> Result<Vec<Seen>, Failure> {
    let described = described(client, pattern, &pattern_segment(pattern)).await?.unwrap_or_default();
    let mut all: Vec<Seen> = described.iter().map(|(name, index)| index.seen(name, None)).collect();
    all.sort_by(|a, b| a.concrete.cmp(&b.concrete));
    Ok(all)
}

async fn described(client: &Client, name: &str, path: &str) -> Result<Option<HashMap<String, Described>>, Failure> {
    const WANTED: &str = "*.aliases,*.settings.index.uuid,*.settings.index.gc_deletes,*.mappings.properties.revsync,*.mappings._source";
    let filter: &[(&str, &str)] = if client.serverless { &[] } else { &[("filter_path", WANTED)] };
    let answer = client.send(Method::Get, path, filter, Content::Empty).await?;
    if answer.status == 404 && matches!(answer.error_type().as_deref(), None | Some("index_not_found_exception")) {
        return Ok(None);
    }
    if !answer.is_success() {
        return Err(client.judged(&answer));
    }
    serde_json::from_slice(&answer.body).map(Some).map_err(|_| Failure::Retry {
        class: Class::Unavailable,
        what: format!("{} described index {name} in a way that is not OpenSearch's", client.place),
        after: None,
    })
}

fn interpret(name: &str, described: &HashMap<String, Described>) -> Result<Seen, Failure> {
    if described.is_empty() {
        let index = Index { alias: false, uuid: None };
        return Ok(Seen { index, ..Described::default().seen(name, None) });
    }
    if let Some(index) = described.get(name) {
        return Ok(index.seen(name, None));
    }
    let members: Vec<(&str, &Alias, &Described)> =
        described.iter().filter_map(|(concrete, index)| Some((concrete.as_str(), index.aliases.get(name)?, index))).collect();
    let write_index = members.iter().find(|(_, alias, _)| alias.is_write_index == Some(true)).or(match members.as_slice() {
        [only] if only.1.is_write_index.is_none() => Some(only),
        _ => None,
    });
    match write_index {
        Some((concrete, alias, index)) => {
            let mut others: Vec<String> = members.iter().map(|(name, ..)| (*name).to_owned()).filter(|name| name != concrete).collect();
            others.sort();
            Ok(Seen { others, ..index.seen(concrete, Some(alias)) })
        }
        None if members.is_empty() => Err(Failure::Misconfigured {
            what: format!("{name} is neither an index nor an alias; a data stream takes no external versions"),
        }),
        None => Err(Failure::Misconfigured {
            what: format!("alias {name} has no write index: set is_write_index on one of its {} indices", members.len()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(text: &str) -> HashMap<String, Described> {
        serde_json::from_str(text).unwrap()
    }

    fn found(text: &str) -> Result<Index, Failure> {
        interpret("people", &described(text)).map(|seen| seen.index)
    }

    fn index(alias: bool, uuid: &str) -> Index {
        Index { alias, uuid: Some(uuid.into()) }
    }

    #[test]
    fn a_name_is_an_index_or_an_alias_with_one_write_index() {
        assert_eq!(found(r#"{"people":{"aliases":{},"settings":{"index":{"uuid":"a"}}}}"#).unwrap(), index(false, "a"));
        assert_eq!(
            found(r#"{"people-1":{"aliases":{"people":{}},"settings":{"index":{"uuid":"a"}}}}"#).unwrap(),
            index(true, "a"),
            "a lone index behind an alias is its write index"
        );
        assert_eq!(
            found(
                r#"{"people-1":{"aliases":{"people":{"is_write_index":false}},"settings":{"index":{"uuid":"a"}}},
                    "people-2":{"aliases":{"people":{"is_write_index":true}},"settings":{"index":{"uuid":"b"}}}}"#
            )
            .unwrap(),
            index(true, "b")
        );
    }

    #[test]
    fn an_alias_without_a_write_index_and_a_data_stream_are_refused() {
        for (text, expected) in [
            (r#"{"people-1":{"aliases":{"people":{}}},"people-2":{"aliases":{"people":{}}}}"#, "one of its 2 indices"),
            (r#"{"people-1":{"aliases":{"people":{"is_write_index":false}}}}"#, "has no write index"),
            (r#"{".ds-people-000001":{"aliases":{},"settings":{"index":{"uuid":"a"}}}}"#, "data stream"),
        ] {
            match found(text) {
                Err(Failure::Misconfigured { what }) => assert!(what.contains(expected), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_server_that_tells_no_uuid_is_not_asked_for_it() {
        assert_eq!(
            found(r#"{"people":{"aliases":{},"mappings":{},"settings":{"index":{}}}}"#).unwrap(),
            Index { alias: false, uuid: None }
        );
        assert_eq!(found("{}").unwrap(), Index { alias: false, uuid: None });
    }

    #[test]
    fn what_of_an_index_matters_for_deletes_is_seen() {
        let seen = |text: &str| interpret("people", &described(text)).unwrap();
        let filter = json!({"bool": {"must_not": {"term": {"revsync.deleted": true}}}});
        let mapping = json!({"properties": {"cells": {"type": "object", "enabled": false}, "deleted": {"type": "boolean"}, "time": {"type": "date"}}});
        let of_ours = json!({"people-1": {
            "aliases": {"people": {"is_write_index": true, "filter": filter}},
            "settings": {"index": {"uuid": "a", "gc_deletes": "24h"}},
            "mappings": {"properties": {"revsync": mapping}},
        }});
        let ours = seen(&of_ours.to_string());
        assert_eq!((ours.concrete.as_str(), ours.gc_deletes.as_deref(), ours.mapped, ours.hides), ("people-1", Some("24h"), true, true));
        assert!(ours.keeps_cells && ours.keeps_source);
        assert!(!seen(r#"{"people":{"mappings":{"_source":{"enabled":false}}}}"#).keeps_source);
        for (text, mapped, hides) in [
            (json!({"people": {"aliases": {"other": {"filter": filter}}}}), false, false),
            (json!({"people-1": {"aliases": {"people": {}}}}), false, false),
            (json!({"people-1": {"aliases": {"people": {"filter": {"term": {"kind": "a"}}}}}}), false, false),
            (
                json!({"people-1": {"aliases": {"people": {"filter": {"query_string": {"query": "NOT revsync.deleted:true"}}}}}}),
                false,
                true,
            ),
            (
                json!({"people": {"mappings": {"properties": {"revsync": {"properties": {"deleted": {"type": "boolean"}, "time": {"type": "text"}}}}}}}),
                false,
                false,
            ),
        ] {
            let found = seen(&text.to_string());
            assert_eq!((found.mapped, found.keeps_cells, found.hides), (mapped, false, hides), "{text}");
        }
    }
}
