//! A server's reason text without what it quotes: field values, request bodies, signatures.
//!
//! Pure. Reasons are let through by an allow-list of openings that are known to hold only names, ids, numbers and limits, and each is cut
//! before the part that may quote more. Anything else is withheld; the error's type is always kept, and says most of it.
//! (Texts seen on OpenSearch 2.19 and 3.9; AWS documentation of its request errors.)

/// The longest reason that is kept, in bytes.
const LONGEST: usize = 400;

/// Where any reason is cut, whatever its opening: what follows quotes a value, a request or a signature.
const CUTS: [&str; 10] = [
    "Preview of field's value",
    "The prefix of the first immense term",
    " at [Source",
    ", request: [",
    ": request: ",
    "request: BulkShardRequest",
    " source[",
    "The Canonical String",
    "Consult the service documentation",
    "\n",
];

/// Openings of reasons whose text up to the cut holds no value.
const OPENINGS: [&str; 48] = [
    "failed to parse field [",
    "failed to process cluster event",
    "object mapping for [",
    "object field starting or ending with a [.]",
    "field name cannot",
    "Field [_",
    "Limit of total fields [",
    "Limit of mapping depth [",
    "The depth of the ",
    "Limit of nested fields [",
    "The number of nested documents has exceeded",
    "Document contains at least one immense term in field=",
    "bytes can be at most",
    "mapper [",
    "mapping set to strict",
    "Could not dynamically add mapping for field [",
    "Cannot update parameter [",
    "Can't merge a non object mapping [",
    "can't merge a non object mapping [",
    "the [enabled] parameter can't be updated",
    "cannot change object mapping from",
    "No handler for type [",
    "Failed to parse mapping",
    "unknown setting [",
    "no write index is defined for alias [",
    "explicit index in bulk is not allowed",
    "Document ID is not supported",
    "no such index [",
    "index [",
    "blocked by:",
    "Invalid index name [",
    "Invalid alias name [",
    "Action/metadata line [",
    "Malformed action/metadata line [",
    "Validation Failed:",
    "no permissions for [",
    "rejected execution of",
    "[parent] Data too large",
    "primary shard is not active",
    "routing is required for [",
    "Request size exceeded",
    "The security token included in the request is",
    "The request signature we calculated does not match",
    "Signature expired",
    "Signature not yet current",
    "User: ",
    "runtime error",
    "the document is no row of cells",
];

/// Types whose reasons are made of names, ids and numbers alone.
const PLAIN_TYPES: [&str; 12] = [
    "version_conflict_engine_exception",
    "cluster_block_exception",
    "index_create_block_exception",
    "index_not_found_exception",
    "index_closed_exception",
    "document_missing_exception",
    "circuit_breaking_exception",
    "routing_missing_exception",
    "resource_already_exists_exception",
    "validation_exception",
    "cluster_manager_not_discovered_exception",
    "unavailable_shards_exception",
];

/// What stands for a reason that is not known to be free of values.
pub(super) const WITHHELD: &str = "the reason is withheld, because it may quote the document";

/// A reason that is safe to log and to store, or `None` where nothing of it is.
pub(super) fn reason(kind: &str, text: &str) -> Option<String> {
    let text = text.trim();
    if !PLAIN_TYPES.contains(&kind) && !OPENINGS.iter().any(|opening| text.starts_with(opening)) && text != "failed to parse" {
        return None;
    }
    let end = CUTS.iter().filter_map(|cut| text.find(cut)).min().unwrap_or(text.len());
    let kept = shortened(text[..end].trim_end_matches([' ', '.', ',', ';', ':', '[', '(']));
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// An error's type as it may be shown: letters, digits and `_ . -`; anything else is no type.
pub(super) fn kind(text: &str) -> &str {
    let plausible = !text.is_empty()
        && text.len() <= 100
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    if plausible { text } else { "unnamed_error" }
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_and_its_type_stay_and_the_value_goes() {
        assert_eq!(
            reason(
                "mapper_parsing_exception",
                "failed to parse field [Price] of type [long] in document with id '1'. Preview of field's value: 'secret'"
            )
            .as_deref(),
            Some("failed to parse field [Price] of type [long] in document with id '1'")
        );
    }

    #[test]
    fn no_known_text_lets_a_value_through() {
        for (kind, text) in [
            (
                "mapper_parsing_exception",
                "failed to parse field [d] of type [date] in document with id '3'. Preview of field's value: 'secret'",
            ),
            ("illegal_argument_exception", "For input string: \"secret\""),
            ("illegal_argument_exception", "failed to parse date field [secret] with format [epoch_millis]"),
            ("illegal_argument_exception", "'secret' is not an IP string literal."),
            ("illegal_argument_exception", "Failed to parse value [secret] as only [true] or [false] are allowed."),
            ("illegal_argument_exception", "illegal latitude value [secret] for g"),
            (
                "illegal_argument_exception",
                "Document contains at least one immense term in field=\"k\" (whose UTF8 encoding is longer than the max length 32766), all of \
                 which were skipped.  Please correct the analyzer to not produce such terms.  The prefix of the first immense term is: \
                 '[secret]...', original message: bytes can be at most 32766 in length; got 33000",
            ),
            (
                "unavailable_shards_exception",
                "[people][0] primary shard is not active Timeout: [1m], request: [BulkShardRequest [[people][0]] containing [index \
                 {[people][1], source[{\"a\":\"secret\"}]}]]",
            ),
            (
                "rejected_execution_exception",
                "rejected execution of processing of [12][indices:data/write/bulk[s][p]]: request: BulkShardRequest [[people][0]] containing \
                 [index {[people][1], source[{\"a\":\"secret\"}]}], target allocation id: x",
            ),
            ("json_parse_exception", "Unrecognized token 'secret': was expecting (JSON String, Number or token 'null')\n at [Source: ...]"),
            ("input_coercion_exception", "Numeric value (secret) out of range of long"),
            (
                "InvalidSignatureException",
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key.\n\nThe \
                 Canonical String for this request should have been 'POST\nx-amz-security-token:secret'",
            ),
        ] {
            let kept = reason(kind, text).unwrap_or_default();
            assert!(!kept.contains("secret"), "{kind}: {kept}");
        }
    }

    #[test]
    fn what_helps_and_quotes_nothing_is_kept() {
        for (kind, text) in [
            ("mapper_parsing_exception", "object mapping for [o] tried to parse field [o] as object, but found a concrete value"),
            ("illegal_argument_exception", "Limit of total fields [1000] has been exceeded"),
            ("parse_exception", "The depth of the nested array field has exceeded the allowed limit of [20]"),
            ("strict_dynamic_mapping_exception", "mapping set to strict, dynamic introduction of [a] within [_doc] is not allowed"),
            ("version_conflict_engine_exception", "[1]: version conflict, current version [2] is higher or equal to the one provided [2]"),
            ("cluster_block_exception", "index [st] blocked by: [FORBIDDEN/8/index write (api)]"),
            ("mapper_parsing_exception", "failed to parse"),
        ] {
            assert_eq!(reason(kind, text).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_long_reason_is_shortened_between_characters() {
        let text = format!("Validation Failed: 1: id [{}] is too long", "ü".repeat(400));
        let kept = reason("action_request_validation_exception", &text).unwrap();
        assert!(kept.len() <= LONGEST && kept.len() > LONGEST - 4);
    }

    #[test]
    fn a_type_that_is_no_name_is_not_shown() {
        assert_eq!(kind("mapper_parsing_exception"), "mapper_parsing_exception");
        assert_eq!(kind("AccessDeniedException"), "AccessDeniedException");
        assert_eq!(kind("what a secret"), "unnamed_error");
        assert_eq!(kind(""), "unnamed_error");
    }
}
