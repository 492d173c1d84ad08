//! What the journal's index is created with: what OpenSearch is to make of the members of a block ([`crate::codec::Content::Block`]).
//!
//! Written down whole, so that nothing hangs on the first block that comes: without it a hash would be a text, and a time too.

use serde_json::{Value, json};

/// Settings and mappings of an index of blocks. Members that it does not name are kept and not searched.
///
/// A statement is cut into words at all that is no letter, digit or underscore: the server's own choice takes `r.Owners.SecondaryOwners` for one.
pub fn body() -> Value {
    let keyword = json!({ "type": "keyword" });
    let long = json!({ "type": "long" });
    let date = json!({ "type": "date" });
    let words = json!({ "type": "pattern", "pattern": r"[^\p{L}\p{N}_]+", "lowercase": true });
    let mappings = json!({
        "dynamic": false,
        "properties": {
            "strandId": keyword,
            "sequenceNo": long,
            "transactionId": keyword,
            "blockTimestamp": date,
            "blockHash": keyword,
            "entriesHash": keyword,
            "previousBlockHash": keyword,
            "entriesHashList": keyword,
            "statements": { "properties": {
                "statement": { "type": "text", "analyzer": "statement" },
                "startTime": date,
                "statementDigest": keyword,
                "documents": keyword,
            } },
            "documents": { "properties": {
                "documentId": keyword,
                "tableName": keyword,
                "tableId": keyword,
                "statements": { "type": "integer" },
            } },
            "tables": keyword,
            "revisions": { "properties": { "hash": keyword, "documentId": keyword } },
            "redactions": { "properties": {
                "blockAddress": { "properties": { "strandId": keyword, "sequenceNo": long } },
                "tableId": keyword,
                "documentId": keyword,
                "version": long,
            } },
        },
    });
    json!({ "settings": { "analysis": { "analyzer": { "statement": words } } }, "mappings": mappings })
}
