//! What the files of a QLDB journal export say of themselves (developer guide, "Journal export output in QLDB"): where a block is, and which data
//! objects a manifest names.
//!
//! Each is Ion text, Ion binary or JSON, as the export's output is, and recognised by its content. Knows nothing of the rest of a block, and never
//! makes more of a value than it looks at, however deeply that nests.

use serde::Deserialize;

use super::audit::Address;
use super::ion_binary::{self, Reader, Type, VERSION_MARKER, Value};
use super::ion_symbols::Symbols;
use super::ion_text;

/// Keys and other values that a manifest in Ion text may have: an object for each hour of more than a century.
const MAX_MANIFEST_VALUES: usize = 1 << 20;

#[derive(Deserialize)]
struct JsonBlock {
    #[serde(rename = "blockAddress")]
    address: JsonAddress,
}

#[derive(Deserialize)]
struct JsonAddress {
    #[serde(rename = "strandId")]
    strand: String,
    #[serde(rename = "sequenceNo")]
    sequence: u64,
}

#[derive(Deserialize)]
struct JsonManifest {
    keys: Vec<String>,
}

/// Where a block is; `None` of a record that is none.
pub fn address(block: &[u8]) -> Option<Address> {
    // JSON is Ion text for the most part, but not where a string has pairs of escapes for one character.
    if let Ok(JsonBlock { address: JsonAddress { strand, sequence } }) = serde_json::from_slice(block) {
        return Some(Address { strand, sequence });
    }
    if block.starts_with(&VERSION_MARKER) {
        let mut reader = Reader::new(block);
        let (value, symbols) = reader.next_value().ok()??;
        let address = member(value, symbols, "blockAddress")?;
        let strand = ion_binary::text(member(address, symbols, "strandId")?, symbols).ok()??.to_owned();
        let sequence = member(address, symbols, "sequenceNo").filter(|number| number.ion_type == Type::PositiveInt && !number.null)?;
        return Some(Address { strand, sequence: ion_binary::uint(sequence.body)? });
    }
    let block = ion_text::elements(std::str::from_utf8(block).ok()?).next()?.ok()?;
    let address = block.as_struct()?.get_all("blockAddress").last()?.as_struct()?;
    let sequence = u64::try_from(address.get_all("sequenceNo").last()?.as_int()?.as_i128()?).ok()?;
    Some(Address { strand: address.get_all("strandId").last()?.as_text()?.to_owned(), sequence })
}

/// The keys of the data objects that a completed manifest names, in their order.
///
/// # Errors
/// What was found instead.
pub fn keys(manifest: &[u8]) -> Result<Vec<String>, &'static str> {
    // Some editors write it before a text.
    let manifest = manifest.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(manifest);
    if let Ok(JsonManifest { keys }) = serde_json::from_slice(manifest) {
        return Ok(keys);
    }
    if manifest.starts_with(&VERSION_MARKER) {
        let mut reader = Reader::new(manifest);
        let (value, symbols) = reader.next_value().ok().flatten().ok_or("neither Ion nor JSON")?;
        let keys = member(value, symbols, "keys").filter(|keys| matches!(keys.ion_type, Type::List | Type::SExp) && !keys.null);
        let keys = ion_binary::items(keys.ok_or("no list of keys")?);
        return keys
            .map(|key| ion_binary::text(key.ok()?, symbols).ok()?.map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or("a key that is no text");
    }
    let text = std::str::from_utf8(manifest).map_err(|_| "neither Ion nor JSON")?;
    let first = ion_text::elements_of(text, MAX_MANIFEST_VALUES).next().and_then(Result::ok);
    let manifest = first.ok_or("neither Ion nor JSON")?;
    let keys = manifest.as_struct().and_then(|members| members.get_all("keys").last()?.as_sequence()).ok_or("no list of keys")?;
    keys.iter().map(|key| key.as_text().map(str::to_owned)).collect::<Option<_>>().ok_or("a key that is no text")
}

/// A member of a struct; of a repeated one the last.
fn member<'a>(of: Value<'a>, symbols: &Symbols<'_>, name: &str) -> Option<Value<'a>> {
    let fields = (of.ion_type == Type::Struct && !of.null).then(|| ion_binary::fields(of))?;
    fields.filter_map(Result::ok).filter(|(field, _)| symbols.text(*field) == Some(name)).map(|(_, value)| value).last()
}

#[cfg(test)]
mod tests {
    use ion_rs::Element;
    use ion_rs::v1_0::Binary;

    use super::super::ion_text::MAX_TEXT_VALUES;
    use super::*;

    /// A text, and the same as Ion binary.
    fn forms(text: &str) -> [Vec<u8>; 2] {
        [text.as_bytes().to_vec(), Element::read_one(text).unwrap().encode_as(Binary).unwrap()]
    }

    #[test]
    fn a_block_says_where_it_is_in_every_form() {
        let expected = |sequence| Some(Address { strand: "s".to_owned(), sequence });
        for sequence in [0, 7, u64::MAX] {
            let text =
                format!("x::{{a:[{{b:1}}],blockAddress:{{strandId:\"s\",sequenceNo:{sequence}}},transactionId:\"t\",c:2020-01-01T}}");
            for block in forms(&text) {
                assert_eq!(address(&block), expected(sequence), "{text}");
            }
            let json = format!(r#"{{"blockAddress":{{"strandId":"s","sequenceNo":{sequence}}},"a":"\ud83d\ude97"}}"#);
            assert_eq!(address(json.as_bytes()), expected(sequence));
        }
        for other in ["{a:1}", "[]", "{blockAddress:{strandId:\"s\",sequenceNo:-1}}", "{blockAddress:{strandId:1,sequenceNo:1}}"] {
            for record in forms(other) {
                assert_eq!(address(&record), None, "{other}");
            }
        }
        assert_eq!((address(b""), address(b"\xFF"), address(&VERSION_MARKER)), (None, None, None));
    }

    #[test]
    fn keys_are_read_from_every_form_of_a_manifest() {
        let expected = ["a.b/2020/s.0-1.ion".to_owned(), "a.b/2020/\u{1f697}.2-3.ion".to_owned()];
        let text = "{keys:[\"a.b/2020/s.0-1.ion\",\"a.b/2020/\u{1f697}.2-3.ion\"]}";
        let pretty = text.replace(',', "\n  ,\n").replace('{', "{\n").into_bytes();
        let json = br#"{"keys":["a.b/2020/s.0-1.ion","a.b/2020/\ud83d\ude97.2-3.ion"]}"#.to_vec();
        let marked = format!("\u{FEFF}{text}").into_bytes();
        for bytes in [&forms(text)[..], &[pretty, json, marked]].concat() {
            assert_eq!(keys(&bytes), Ok(expected.to_vec()), "{bytes:?}");
        }
        for bytes in forms("{keys:[]}") {
            assert_eq!(keys(&bytes), Ok(Vec::new()));
        }
        let many = format!("{{keys:[{}]}}", "k,".repeat(2 * MAX_TEXT_VALUES));
        assert_eq!(keys(many.as_bytes()).map(|keys| keys.len()), Ok(2 * MAX_TEXT_VALUES), "more than a record may have");
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for (text, found) in
            [("{a:1}", "no list of keys"), ("{keys:null.list}", "no list of keys"), ("{keys:[1]}", "a key that is no text")]
        {
            for bytes in forms(text) {
                assert_eq!(keys(&bytes), Err(found), "{text}");
            }
        }
        for bytes in [&b""[..], b"{keys:[", b"\xFF", &VERSION_MARKER] {
            assert_eq!(keys(bytes), Err("neither Ion nor JSON"), "{bytes:?}");
        }
    }

    #[test]
    fn no_depth_and_no_symbol_is_too_much() {
        let nested = format!("{{keys:{0}{1}}}", "[".repeat(300_000), "]".repeat(300_000));
        for text in [&nested, "{keys:[\"\\UFFFFFFFF\"]}", "{keys:[$99999999999999999999]}"] {
            assert_eq!((address(text.as_bytes()), keys(text.as_bytes())), (None, Err("neither Ion nor JSON")));
        }
        let mut deep = vec![0x20];
        for _ in 0..100_000 {
            let length = deep.len();
            let head = [0xBE, (length >> 14) as u8 & 0x7F, (length >> 7) as u8 & 0x7F, length as u8 & 0x7F | 0x80];
            deep.extend(head.iter().rev());
        }
        deep.extend(VERSION_MARKER.iter().rev());
        deep.reverse();
        assert_eq!((address(&deep), keys(&deep)), (None, Err("no list of keys")));
    }
}
