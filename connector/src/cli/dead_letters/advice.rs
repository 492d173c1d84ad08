//! What each class of fault means, and what a person can do about it.
//!
//! The classes are this product's own and the server's `error.type`; a class without an entry still gets the server's reason and a way on.

/// What a class of fault means and what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advice {
    /// What happened, in a sentence.
    pub means: &'static str,
    /// What to do, in a sentence.
    pub todo: &'static str,
}

const REPLAY_AFTER_MAPPING: &str =
    "correct the index mapping, or leave the field out with a rule (exclude); a field's type changes only in a new index. Then replay";
const AT_THE_SOURCE: &str =
    "the record itself has to be right: write the document once more at its source; a newer revision needs no replay of this one";
const NEWER_REVSYNC: &str =
    "if the record is what its format says, this is a fault of revsync: please report it; a version that can read it replays it";

/// The advice for a class.
pub(crate) fn advice(kind: &str) -> Advice {
    let (means, todo) = match kind {
        "undecodable" => ("the record's bytes are not what its format says", NEWER_REVSYNC),
        "too_many_faults" => (
            "the record has more parts that cannot be used than become dead letters of their own; this letter stands for those that are left",
            "see the other letters of the record for what is wrong; this one is sent again with all that is left",
        ),
        "unknown_record" => (
            "the record is of no format that is known, or of a type that its format does not have",
            "check that the source is the right one, and --format",
        ),
        "unusable_revision" => {
            ("the record is a revision without something that it cannot do without: an id, a version, a table", NEWER_REVSYNC)
        }
        "unusable_block" => {
            ("the record is a block of the journal without a place in its strand, or with a member of another type", NEWER_REVSYNC)
        }
        "key_missing" => (
            "the row lacks a part of its key, so nothing tells which document it is",
            "check the key columns of the table (--key, or key in its rule) against the row, then replay",
        ),
        "unusable_key" => (
            "a key column of the row holds what no document can be named after",
            "check the key columns of the table (--key, or key in its rule) against the row, then replay",
        ),
        "key_contradicted" => (
            "the message's key and the row do not have the same value in a key column",
            "check the key columns of the table (--key, or key in its rule), and what the connector makes the key of; then replay",
        ),
        "wrong_column_type" => (
            "a column of the row holds a value that is not of the type that the table's rule, or the message's schema, gives it",
            "correct types in the table's rule, then replay",
        ),
        "unavailable_value" => (
            "the change does not have the whole row: the database did not log a large value that did not change",
            "have the database log whole rows (PostgreSQL: ALTER TABLE … REPLICA IDENTITY FULL), and write the row once more there; a newer change needs no replay of this one",
        ),
        "truncate" => (
            "the table was truncated at its source, and nothing tells which rows were in it",
            "delete the documents of the table that are older than the truncate; nothing comes of a replay",
        ),
        "damaged_aggregate" => (
            "a record of several, packed by the Kinesis Producer Library, is damaged inside; what could be read was delivered",
            AT_THE_SOURCE,
        ),
        "panic" => (
            "the connector failed at this record; the reason names the place in its source",
            "this is a fault of revsync: please report it with the place; a version without it replays the letter",
        ),
        "hash_mismatch" => (
            "the revision's content does not give the hash that it carries: it was changed after it was committed, or captured wrongly",
            "compare it with the ledger before anything else; sync without --verify-hashes would deliver it as it is",
        ),
        "nested_too_deeply" => ("lists and structs stand deeper inside one another than is read", AT_THE_SOURCE),
        "too_many_values" => {
            ("the record defines or repeats more than is read of one record, far more than any ledger writes", AT_THE_SOURCE)
        }
        "number_too_long" => ("a number has more digits than is written", AT_THE_SOURCE),
        "not_finite" => (
            "a number is NaN or infinite, and the table's rule says that such documents are dead letters",
            "set non_finite to null or string in the rule, then replay",
        ),
        "document_too_large" | "payload_too_large" => (
            "the document by itself is larger than a request may be",
            "leave large fields out with a rule (exclude), or raise http.max_content_length at the server; then replay",
        ),
        "empty_id" => ("the document has an empty id, and an index takes none", AT_THE_SOURCE),
        "id_too_long" => (
            "the document's id has more than the 512 bytes that OpenSearch takes",
            "set long_ids = \"hash\" in the table's rule, then replay",
        ),
        "version_out_of_range" => ("the version is larger than OpenSearch takes", AT_THE_SOURCE),
        "invalid_index_name" | "invalid_index_name_exception" => {
            ("no index can have the name that the table comes to", "name an index in a rule for the table, then replay")
        }
        "mapper_parsing_exception" | "document_parsing_exception" => {
            ("a field of the document does not fit the type that the index has for it", REPLAY_AFTER_MAPPING)
        }
        "strict_dynamic_mapping_exception" => (
            "the document has a field that the index does not know, and the index takes no new ones (dynamic: strict)",
            REPLAY_AFTER_MAPPING,
        ),
        "illegal_argument_exception" => (
            "the server refuses the document: a field's kind contradicts the mapping, the index has no room for more fields, or a text is too long for a keyword",
            REPLAY_AFTER_MAPPING,
        ),
        "max_bytes_length_exceeded_exception" => ("a text is longer than a keyword field may hold (32,766 bytes)", REPLAY_AFTER_MAPPING),
        "routing_missing_exception" => {
            ("the index wants a routing value, and the table's rule gives none", "set routing in the rule, then replay")
        }
        "parse_exception" | "action_request_validation_exception" => ("the server cannot read the operation", NEWER_REVSYNC),
        _ => {
            ("the index refused the operation each time it was tried", "the reason is the server's own; when its cause is removed, replay")
        }
    };
    Advice { means, todo }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_meaning_and_something_to_do() {
        for kind in ["undecodable", "mapper_parsing_exception", "hash_mismatch", "id_too_long", "never_heard_of"] {
            let Advice { means, todo } = advice(kind);
            assert!(!means.is_empty() && !todo.is_empty() && !means.ends_with('.') && !todo.ends_with('.'), "{kind}");
        }
        assert_ne!(advice("mapper_parsing_exception"), advice("never_heard_of"));
    }
}
