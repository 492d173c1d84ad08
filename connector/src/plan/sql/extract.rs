//! What a document has at a set of paths, found in one pass over its JSON text.
//!
//! Copies nothing and builds no tree: it keeps the texts of the values and reads one when it is asked for. Recurses no deeper than the
//! longest path.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::value::Value;
use crate::codec::json_cursor::Cursor;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) enum Step {
    /// To the field of this name, also of every object in a list.
    Name(String),
    /// To the element of a list at this place, from 0.
    Element(usize),
}

/// Paths to look for. Each has a number, by which what was found there is asked for.
#[derive(Debug, Clone, Default)]
pub(in crate::plan) struct Wanted {
    root: Node,
    count: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    fields: BTreeMap<Vec<u8>, Node>,
    elements: BTreeMap<usize, Node>,
    number: Option<usize>,
    /// The numbers of the paths that go on by a name.
    by_name: Vec<usize>,
}

impl Wanted {
    /// Adds a path, which begins with a name, and gives its number; the same path always has the same.
    pub(in crate::plan) fn add(&mut self, path: &[Step]) -> usize {
        let next = self.count;
        let number = self.root.add(path, next);
        self.count = self.count.max(number + 1);
        number
    }

    /// Whether nothing is looked for.
    pub(in crate::plan) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Looks for all the paths. `None` when `json` is not an object in valid JSON.
    pub(in crate::plan) fn find<'a>(&self, json: &'a [u8]) -> Option<Found<'a>> {
        let mut search = Search { cursor: Cursor::new(json), found: Found::default() };
        if search.cursor.peek()? != b'{' {
            return None;
        }
        search.object(&self.root)?;
        search.found.more.sort_by_key(|(number, _)| *number);
        search.cursor.at_end().then_some(search.found)
    }
}

impl Node {
    fn add(&mut self, path: &[Step], next: usize) -> usize {
        match path {
            [] => *self.number.get_or_insert(next),
            [Step::Element(at), rest @ ..] => self.elements.entry(*at).or_default().add(rest, next),
            [Step::Name(name), rest @ ..] => {
                let number = self.fields.entry(name.clone().into_bytes()).or_default().add(rest, next);
                if number == next {
                    self.by_name.push(number);
                }
                number
            }
        }
    }
}

/// Paths whose first value is kept without asking for memory.
const KEPT: usize = 16;

struct Search<'a> {
    cursor: Cursor<'a>,
    found: Found<'a>,
}

impl Search<'_> {
    fn object(&mut self, node: &Node) -> Option<()> {
        self.cursor.advance();
        while let Some(name) = self.cursor.next_field()? {
            match child(node, name) {
                Some(child) => self.value(child)?,
                None => drop(self.cursor.value()?),
            }
        }
        Some(())
    }

    fn value(&mut self, node: &Node) -> Option<()> {
        let start = self.cursor.clone();
        match self.cursor.peek()? {
            b'{' if !node.fields.is_empty() => self.object(node)?,
            b'[' if !node.fields.is_empty() || !node.elements.is_empty() => {
                if !node.elements.is_empty() {
                    self.elements(node)?;
                }
                if !node.fields.is_empty() {
                    self.cursor = start.clone();
                    self.list(node)?;
                }
            }
            _ => drop(self.cursor.value()?),
        }
        if let Some(number) = node.number {
            self.found.add(number, self.cursor.since(&start));
        }
        Some(())
    }

    /// Goes into the elements of a list that have a place in the tree.
    fn elements(&mut self, node: &Node) -> Option<()> {
        self.cursor.advance();
        let mut at = 0;
        while self.cursor.next_element(b']')? {
            match node.elements.get(&at) {
                Some(element) => self.value(element)?,
                None => drop(self.cursor.value()?),
            }
            at += 1;
        }
        Some(())
    }

    /// Goes into every object of a list, and of the lists in it.
    fn list(&mut self, node: &Node) -> Option<()> {
        for number in &node.by_name {
            self.found.add(*number, PASSED_A_LIST);
        }
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
        return node.fields.get(bare);
    }
    node.fields.get(serde_json::from_slice::<String>(name).ok()?.as_bytes())
}

/// Stands among the texts of a path that led through a list; no value has no text.
const PASSED_A_LIST: &[u8] = b"";

/// What a document has at the paths that were looked for. The default is that of a document without any field.
#[derive(Debug, Default)]
pub(in crate::plan) struct Found<'a> {
    first: [Option<&'a [u8]>; KEPT],
    /// By the numbers of the paths, and of each in the order of the document.
    more: Vec<(usize, &'a [u8])>,
}

impl<'a> Found<'a> {
    fn add(&mut self, number: usize, text: &'a [u8]) {
        match self.first.get_mut(number) {
            Some(first @ None) => *first = Some(text),
            _ => self.more.push((number, text)),
        }
    }

    fn all(&self, number: usize) -> impl Iterator<Item = &'a [u8]> {
        let from = self.more.partition_point(|(other, _)| *other < number);
        let more = self.more[from..].iter().take_while(move |(other, _)| *other == number).map(|(_, text)| *text);
        self.first.get(number).copied().flatten().into_iter().chain(more)
    }

    fn texts(&self, number: usize) -> impl Iterator<Item = &'a [u8]> {
        self.all(number).filter(|text| !text.is_empty())
    }

    /// Whether the path of this number leads nowhere: no object has such a field, not even as null.
    pub(super) fn is_missing(&self, number: usize) -> bool {
        self.texts(number).next().is_none()
    }

    /// The values at the path of this number; of a list its elements, and those of lists in it.
    pub(super) fn values(&self, number: usize) -> impl Iterator<Item = Value<'a>> {
        self.texts(number).flat_map(Elements::of).map(Value::read)
    }

    /// The JSON text at the path of this number: of a path that led through a list, the list of what was found. `None` where nothing is.
    pub(in crate::plan) fn text(&self, number: usize) -> Option<Cow<'a, [u8]>> {
        if !self.all(number).any(<[u8]>::is_empty) {
            // Of a field that comes twice the last one counts.
            return self.texts(number).last().map(Cow::Borrowed);
        }
        let mut list = vec![b'['];
        for text in self.texts(number) {
            if list.len() > 1 {
                list.push(b',');
            }
            list.extend_from_slice(text);
        }
        list.push(b']');
        Some(Cow::Owned(list))
    }
}

/// The texts of the values in a text: the value itself, or of a list the elements, however deep.
pub(super) struct Elements<'a>(Cursor<'a>);

impl<'a> Elements<'a> {
    pub(super) fn of(json: &'a [u8]) -> Self {
        Self(Cursor::new(json))
    }
}

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

    /// A path of names, and of elements where a name is a number.
    fn steps(path: &[&str]) -> Vec<Step> {
        path.iter().map(|name| name.parse().map_or_else(|_| Step::Name((*name).to_owned()), Step::Element)).collect()
    }

    fn found(paths: &[&[&str]], json: &str) -> Option<Vec<Vec<String>>> {
        let mut wanted = Wanted::default();
        let numbers: Vec<usize> = paths.iter().map(|path| wanted.add(&steps(path))).collect();
        let found = wanted.find(json.as_bytes())?;
        let texts = |number: usize| found.texts(number).flat_map(Elements::of).map(|t| String::from_utf8(t.to_vec()).unwrap());
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
        let [null, missing, below, empty] = ["n", "m", "n.x", "e"].map(|path| wanted.add(&steps(&path.split('.').collect::<Vec<_>>())));
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
