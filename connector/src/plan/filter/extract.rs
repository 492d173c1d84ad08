//! What a document has at a set of paths, found in one pass over its JSON text.
//!
//! Copies nothing and builds no tree: it keeps the texts of the values and reads one when it is asked for. Recurses no deeper than the
//! longest path.

use std::collections::BTreeMap;

use super::value::Value;
use crate::codec::json_cursor::Cursor;

/// Paths to look for. Each has a number, by which what was found there is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    root: Node,
    count: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    below: BTreeMap<Vec<u8>, Node>,
    number: Option<usize>,
}

impl Wanted {
    /// Adds a path of field names and gives its number; the same path always has the same.
    pub(super) fn add(&mut self, path: impl IntoIterator<Item = String>) -> usize {
        let end = path.into_iter().fold(&mut self.root, |node, name| node.below.entry(name.into_bytes()).or_default());
        *end.number.get_or_insert_with(|| {
            self.count += 1;
            self.count - 1
        })
    }

    /// Looks for all the paths. `None` when `json` is not an object in valid JSON.
    pub(super) fn find<'a>(&self, json: &'a [u8]) -> Option<Found<'a>> {
        let mut search = Search { cursor: Cursor::new(json), texts: vec![Vec::new(); self.count] };
        if search.cursor.peek()? != b'{' {
            return None;
        }
        search.object(&self.root)?;
        search.cursor.at_end().then_some(Found { texts: search.texts })
    }
}

struct Search<'a> {
    cursor: Cursor<'a>,
    texts: Vec<Vec<&'a [u8]>>,
}

impl Search<'_> {
    fn object(&mut self, node: &Node) -> Option<()> {
        self.cursor.advance();
        while let Some(name) = self.cursor.next_field()? {
            match child(node, name) {
                Some(child) => self.field(child)?,
                None => drop(self.cursor.value()?),
            }
        }
        Some(())
    }

    fn field(&mut self, node: &Node) -> Option<()> {
        let start = self.cursor.clone();
        match self.cursor.peek()? {
            b'{' if !node.below.is_empty() => self.object(node)?,
            b'[' if !node.below.is_empty() => self.list(node)?,
            _ => drop(self.cursor.value()?),
        }
        if let Some(number) = node.number {
            self.texts[number].push(self.cursor.since(&start));
        }
        Some(())
    }

    /// Goes into every object of a list, and of the lists in it.
    fn list(&mut self, node: &Node) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.cursor.peek()? {
                b'{' => self.object(node)?,
                b'[' => {
                    depth += 1;
                    self.cursor.advance();
                }
                _ => drop(self.cursor.value()?),
            }
            while !self.cursor.next_element(b']')? {
                depth -= 1;
                if depth == 0 {
                    return Some(());
                }
            }
        }
    }
}

/// The part of the tree below a field whose name is written like this, quotes included.
fn child<'n>(node: &'n Node, name: &[u8]) -> Option<&'n Node> {
    let bare = &name[1..name.len() - 1];
    if memchr::memchr(b'\\', bare).is_none() {
        return node.below.get(bare);
    }
    node.below.get(serde_json::from_slice::<String>(name).ok()?.as_bytes())
}

/// What a document has at the paths that were looked for.
#[derive(Debug)]
pub(super) struct Found<'a> {
    texts: Vec<Vec<&'a [u8]>>,
}

impl<'a> Found<'a> {
    /// Whether the path of this number leads nowhere: no object has such a field, not even as null.
    pub(super) fn is_missing(&self, number: usize) -> bool {
        self.texts[number].is_empty()
    }

    /// The values at the path of this number; of a list its elements, and those of lists in it.
    pub(super) fn values(&self, number: usize) -> impl Iterator<Item = Value<'a>> {
        self.texts[number].iter().flat_map(|text| Elements(Cursor::new(text))).map(Value::read)
    }
}

/// The texts of the values in a text: the value itself, or of a list the elements, however deep.
struct Elements<'a>(Cursor<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            match self.0.peek()? {
                b if matches!(b, b'[' | b']' | b',') || b.is_ascii_whitespace() => self.0.advance(),
                _ => return self.0.value(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&[&str]], json: &str) -> Option<Vec<Vec<String>>> {
        let mut wanted = Wanted::default();
        let numbers: Vec<usize> = paths.iter().map(|path| wanted.add(path.iter().map(|name| (*name).to_owned()))).collect();
        let found = wanted.find(json.as_bytes())?;
        let texts = |number: usize| {
            found.texts[number].iter().flat_map(|text| Elements(Cursor::new(text))).map(|t| String::from_utf8(t.to_vec()).unwrap())
        };
        Some(numbers.into_iter().map(|number| texts(number).collect()).collect())
    }

    fn at(path: &[&str], json: &str) -> Vec<String> {
        found(&[path], json).unwrap().remove(0)
    }

    #[test]
    fn a_path_leads_through_objects_and_through_lists_of_any_depth() {
        assert_eq!(at(&["a"], r#"{"b":2,"a":442.30}"#), ["442.30"]);
        assert_eq!(at(&["a", "b"], r#" { "a" : { "c" : [ 1 ] , "b" : "x" } } "#), [r#""x""#]);
        assert_eq!(at(&["a", "b"], r#"{"a":[{"b":1},7,"b",{"c":2},[[{"b":[3,[4]]}]],{"b":null}]}"#), ["1", "3", "4", "null"]);
        assert_eq!(at(&["a"], r#"{"a":[1,[],[[2]],{"b":[3]}]}"#), ["1", "2", r#"{"b":[3]}"#]);
        assert_eq!(at(&["a", "b"], r#"{"a":"b"}"#), [""; 0]);
        assert_eq!(at(&["b"], r#"{"a":{"b":1}}"#), [""; 0]);
    }

    #[test]
    fn a_value_can_be_asked_for_beside_what_is_in_it() {
        let both = found(&[&["a"], &["a", "b"], &["a"]], r#"{"a":{"b":1}}"#).unwrap();
        assert_eq!(both, [vec![r#"{"b":1}"#], vec!["1"], vec![r#"{"b":1}"#]]);
    }

    #[test]
    fn names_are_compared_as_text_however_they_are_escaped() {
        assert_eq!(at(&["é\"x"], r#"{"\u00e9\"x":1}"#), ["1"]);
        assert_eq!(at(&["a.b"], r#"{"a.b":1,"a":{"b":2},"A.B":3}"#), ["1"]);
    }

    #[test]
    fn a_field_that_is_null_is_not_missing() {
        let mut wanted = Wanted::default();
        let [null, missing, below, empty] = ["n", "m", "n.x", "e"].map(|path| wanted.add(path.split('.').map(str::to_owned)));
        let found = wanted.find(br#"{"n":null,"e":[]}"#).unwrap();
        assert_eq!([null, missing, below, empty].map(|number| found.is_missing(number)), [false, true, true, false]);
    }

    #[test]
    fn what_is_not_an_object_is_not_searched() {
        for json in ["", "[1]", "{", "{\"a\"", "{\"a\":1", "{\"a\":1}x", "{\"a\":}", "{\"a\":[", "{\"a\":[[1]"] {
            assert_eq!(found(&[&["a", "b"]], json), None, "{json}");
        }
    }

    #[test]
    fn lists_nested_a_million_deep_cost_no_stack() {
        let json = format!("{{\"a\":{}{{\"b\":1}}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(at(&["a", "b"], &json), ["1"]);
        assert_eq!(at(&["a"], &json), [r#"{"b":1}"#]);
    }
}
