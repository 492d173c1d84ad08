//! A merge as an update of a bulk request: the same script each time, so that a server compiles it once, and what to merge as its parameters.
//!
//! Pure: bytes are appended to what the caller has. The rules are those of [`plan::cells`](crate::plan::cells), by which the script goes with what
//! it is given: versions, and ranks that it compares as text. What it knows of a row is in the document's field `revsync`:
//!
//! ```json
//! {"f:stock": 7, "price": 442.30, "revsync": {"cells": {"v": 1, "erased": 4, "columns": {"f:stock": [5, "7"], "price": [6, "442.30", 1]}}}}
//! ```
//!
//! that is, up to which version everything was erased, and of each column the version and the rank of its value. Of a row of which nothing is left
//! a tombstone stays, which says `deleted` and `time` too, and `v` as every tombstone does. The `v` of a row that lives is inside of what no index
//! looks into, or else whoever searches for `1` would find it.
//!
//! A server reads a document's decimals as binary numbers when it hands the document to a script, and writes them otherwise than they were written
//! (`442.30` as `442.3`, `1e400` not at all). So a value with decimals in it is also kept as text: as its rank alone (`1` in the third place), where
//! it is nothing but one short number; else with each string marked `s` and each decimal a string marked `n`. Out of that the script makes
//! the value anew whenever it writes the document. All digits stay, also those of whole numbers of any length. An exponent is written as Java
//! does (`1e400` becomes `1E+400`).
//! (Seen on OpenSearch 2.19 and 3.9.)

use std::sync::LazyLock;

use itoa::Buffer;

use super::request::append_string;
use crate::plan::cells::rank;
use crate::plan::tombstone::rfc3339;
use crate::revision::{Cell, Cells};

/// The script, in Painless. `ctx.op` is `create` where there is no document yet.
///
/// Parameters: `e`, the version up to which is erased, or -1; `t`, the time that a tombstone bears; `c`, a list of cells, each a list of name, version,
/// rank, value and, for a value with decimals, what it is made of. An older tombstone of a whole row says by the version of its document up to which
/// version the row is gone.
const SCRIPT: &str = include_str!("merge.painless");

/// The line up to the parameters.
static OPENING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let script: String = SCRIPT.lines().map(str::trim).collect();
    let mut out = br#"{"scripted_upsert":true,"upsert":{},"script":{"lang":"painless","source":"#.to_vec();
    append_string(&script, &mut out);
    out.extend_from_slice(br#","params":{"e":"#);
    out
});

/// Appends the second line of an update that merges. `time` is in milliseconds since 1970 (UTC).
pub(super) fn append_line(cells: &Cells, time: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&OPENING);
    match cells.erased {
        Some(erased) => append_number(erased, out),
        None => out.extend_from_slice(b"-1"),
    }
    out.extend_from_slice(br#","t":"#);
    append_string(&rfc3339(time), out);
    out.extend_from_slice(br#","c":["#);
    for (at, cell) in cells.columns.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        append_cell(cell, out);
    }
    out.extend_from_slice(b"]}}}\n");
}

fn append_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(Buffer::new().format(number).as_bytes());
}

fn append_cell(Cell { name, version, value }: &Cell, out: &mut Vec<u8>) {
    let rank = rank(value);
    out.push(b'[');
    append_string(name, out);
    out.push(b',');
    append_number(*version, out);
    out.push(b',');
    append_string(&rank, out);
    out.push(b',');
    let mut marked = Vec::new();
    if !mark(value, &mut marked) {
        out.extend_from_slice(value);
    } else if is_decimal(rank.as_bytes()) && rank.len() == value.len() {
        out.extend_from_slice(b"null,1");
    } else {
        out.extend_from_slice(b"null,");
        out.extend_from_slice(&marked);
    }
    out.push(b']');
}

/// Appends a JSON value with every string marked and every decimal as a marked string. Whether there is a decimal in it.
fn mark(json: &[u8], out: &mut Vec<u8>) -> bool {
    let mut decimals = false;
    let mut rest = json;
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => rest.iter().position(|byte| !is_of_number(*byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        match first {
            // The names of members stay as they are.
            b'"' if after.trim_ascii_start().first() != Some(&b':') => {
                out.extend_from_slice(b"\"s");
                out.extend_from_slice(&token[1..]);
            }
            b'-' | b'0'..=b'9' if is_decimal(token) => {
                out.extend_from_slice(b"\"n");
                out.extend_from_slice(token);
                out.push(b'"');
                decimals = true;
            }
            _ => out.extend_from_slice(token),
        }
        rest = after;
    }
    decimals
}

/// Bytes of the string that the text begins with, quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

/// Whether the text is a number with a point or an exponent. Minus nothing is none: Java's decimals have no such number, and its binary ones do.
fn is_decimal(text: &[u8]) -> bool {
    let is_number = text.iter().all(|byte| is_of_number(*byte));
    let mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let is_minus_nothing = text.starts_with(b"-") && mantissa.skip(1).all(|byte| matches!(byte, b'0' | b'.'));
    is_number && !is_minus_nothing && text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::operation::{Operation, Target};
    use crate::revision::VersionType;

    fn cell(name: &str, version: u64, value: &str) -> Cell {
        Cell { name: name.to_owned(), version, value: Bytes::copy_from_slice(value.as_bytes()) }
    }

    fn line(cells: &Cells) -> Vec<u8> {
        let mut out = Vec::new();
        append_line(cells, 1_732_868_100_000, &mut out);
        assert!(out.ends_with(b"\n") && !out[..out.len() - 1].contains(&b'\n'));
        out
    }

    fn parameters(cells: &Cells) -> Value {
        serde_json::from_slice::<Value>(&line(cells)).unwrap()["script"]["params"].take()
    }

    #[test]
    fn the_script_is_the_same_every_time_and_what_to_merge_is_its_parameters() {
        let one: Value = serde_json::from_slice(&line(&Cells { erased: Some(4), columns: vec![] })).unwrap();
        let other: Value =
            serde_json::from_slice(&line(&Cells { erased: None, columns: vec![cell("f:\"q\"", 7, "{\"a\":[1,null]}")] })).unwrap();
        assert_eq!(one["script"]["source"], other["script"]["source"]);
        assert_eq!((&one["scripted_upsert"], &one["upsert"], &one["script"]["lang"]), (&json!(true), &json!({}), &json!("painless")));
        assert_eq!(one["script"]["params"], json!({"e": 4, "t": "2024-11-29T08:15:00Z", "c": []}));
        let value = json!({"a": [1, null]});
        assert_eq!(other["script"]["params"]["c"], json!([["f:\"q\"", 7, "{\"a\":[1,null]}", value]]));
        assert_eq!(other["script"]["params"]["e"], json!(-1));
    }

    #[test]
    fn decimals_are_sent_as_text_and_nothing_else_is() {
        let long = format!("0.{}", "3".repeat(70));
        for (value, expected) in [
            ("442.30", json!([null, 1])),
            ("-1E+7", json!([null, 1])),
            (long.as_str(), json!([null, format!("n{long}")])),
            ("7", json!([7])),
            ("-0.0", json!([-0.0])),
            ("-0e3", json!([-0.0])),
            ("null", json!([null])),
            ("\"1.5\"", json!(["1.5"])),
            ("[1,2.50,\"x\\\"1.5\",{\"1.5\" : \"y\", \"n\":1e400}]", json!([null, [1, "n2.50", "sx\"1.5", {"1.5": "sy", "n": "n1e400"}]])),
        ] {
            let parameters = parameters(&Cells { erased: None, columns: vec![cell("a", 1, value)] });
            assert_eq!(parameters["c"][0].as_array().unwrap()[3..], *expected.as_array().unwrap(), "{value}");
        }
    }

    #[test]
    fn a_merge_is_about_as_large_in_a_batch_as_it_is_in_the_body() {
        let target = Target { index: "i".into(), id: "a".into(), version: 1, version_type: VersionType::ExternalGte, routing: None };
        let bare = Operation::Delete { target: target.clone() }.size();
        let wide = (0..1_000).map(|at| cell(&format!("column-{at}"), 1_700_000_000_000, "\"some value of a column\"")).collect();
        for columns in [vec![], vec![cell("a", 1, "1")], wide, vec![cell("a", 1, &format!("\"{}\"", "x".repeat(1_000_000)))]] {
            let cells = Cells { erased: None, columns };
            let written = line(&cells).len();
            let counted = Operation::Merge { target: target.clone(), cells: Arc::new(cells), time: 0 }.size() - bare;
            assert!(counted >= written && counted < written + written / 4 + 200, "{counted} and {written}");
        }
    }
}
