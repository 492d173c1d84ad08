//! What the completed manifest of a QLDB journal export says: the keys of its data files, in their order.
//!
//! It is Ion text, Ion binary or JSON, as the export's output is; it is recognised by its content.

use ion_rs::Element;
use serde::Deserialize;

/// The most bytes that a manifest may have: one names some hundred bytes for each file.
pub(super) const LARGEST: u64 = 64 << 20;

#[derive(Deserialize)]
struct Json {
    keys: Vec<String>,
}

/// The keys that a completed manifest names; an error says what was found instead.
pub(super) fn keys(bytes: &[u8]) -> Result<Vec<String>, &'static str> {
    // JSON is Ion text for the most part, but not where a string has pairs of escapes for one character.
    if let Ok(Json { keys }) = serde_json::from_slice(bytes) {
        return Ok(keys);
    }
    let element = Element::read_one(bytes).map_err(|_| "neither Ion nor JSON")?;
    let keys = element.as_struct().and_then(|members| members.get("keys")).and_then(Element::as_sequence).ok_or("no list of keys")?;
    keys.iter().map(|key| key.as_text().map(str::to_owned)).collect::<Option<_>>().ok_or("a key that is no text")
}

#[cfg(test)]
mod tests {
    use ion_rs::v1_0::Binary;

    use super::*;

    #[test]
    fn keys_are_read_from_every_form_of_a_manifest() {
        let expected = ["a.b/2020/s.0-1.ion".to_owned(), "a.b/2020/\u{1f697}.2-3.ion".to_owned()];
        let text = "{keys:[\"a.b/2020/s.0-1.ion\",\"a.b/2020/\u{1f697}.2-3.ion\"]}";
        let element = Element::read_one(text).unwrap();
        let binary = element.encode_as(Binary).unwrap();
        let pretty = text.replace(',', "\n  ,\n").replace('{', "{\n");
        let json = r#"{"keys":["a.b/2020/s.0-1.ion","a.b/2020/\ud83d\ude97.2-3.ion"]}"#;
        for bytes in [text.as_bytes(), pretty.as_bytes(), &binary, json.as_bytes()] {
            assert_eq!(keys(bytes), Ok(expected.to_vec()), "{bytes:?}");
        }
        assert_eq!(keys(b"{keys:[]}"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for (bytes, found) in [
            ("", "neither Ion nor JSON"),
            ("{keys:[", "neither Ion nor JSON"),
            ("{a:1}", "no list of keys"),
            ("{keys:[1]}", "a key that is no text"),
        ] {
            assert_eq!(keys(bytes.as_bytes()), Err(found), "{bytes}");
        }
    }
}
