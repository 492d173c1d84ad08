//! The configuration file's JSON Schema, made from the structs of [`File`](super::File), and what the loader and the example look up in it.
//!
//! Never a second description: names, forms and documentation all come from the structs.

use serde_json::Value;

use super::file::File;

/// Every table of the file by its path, in the order of the example; the empty path is the file itself.
pub(super) const TABLES: [&str; 11] =
    ["", "source", "source.aws", "sink", "sink.aws", "delivery", "checkpoints", "dead_letters", "dead_letters.aws", "http", "table"];

/// The schema as a JSON document (draft 2020-12).
pub(super) fn root() -> Value {
    let mut schema = schemars::schema_for!(File);
    schema.insert("title".to_owned(), "revsync configuration".into());
    schema.to_value()
}

/// The text of `config schema`.
pub fn text() -> String {
    format!("{:#}\n", root())
}

/// Follows a reference, and an optional value to the value itself.
pub(super) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return root.pointer(reference.trim_start_matches('#')).unwrap_or(schema);
    }
    match schema["anyOf"].as_array() {
        Some(forms) => forms.iter().find(|form| form["type"] != "null").map_or(schema, |form| resolve(root, form)),
        None => schema,
    }
}

/// The schema of a table of the file; of one rule for `table`.
pub(super) fn table<'a>(root: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|name| !name.is_empty()).fold(root, |schema, name| {
        let below = resolve(root, &schema["properties"][name]);
        if below["type"] == "array" { resolve(root, &below["items"]) } else { below }
    })
}

/// The keys of a table of the file, in alphabetical order.
pub(super) fn keys(root: &Value, path: &str) -> Vec<String> {
    table(root, path)["properties"].as_object().map(|known| known.keys().cloned().collect()).unwrap_or_default()
}

/// How a table's header is written.
pub(super) fn header(path: &str) -> String {
    if path == "table" { "[[table]]".to_owned() } else { format!("[{path}]") }
}
