//! Choosing fields of a document in one pass over its JSON text; values are copied byte for byte.
//!
//! Never builds a tree, never touches a value, never recurses deeper than the document was checked for.

use crate::codec::ion_json::write_string;
use crate::codec::json_cursor::Cursor;

/// Paths into a document, such as `Owners.PrimaryOwner.PersonId`. A path goes through lists; a name with dots is put in double quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    root: Node,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    /// Field name as JSON text, quotes included, and what is below it.
    children: Vec<(Vec<u8>, Node)>,
    /// A path ends here: the whole value is meant.
    end: bool,
}

impl Node {
    fn child(&self, key: &[u8]) -> Option<&Node> {
        self.children.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }
}

impl Paths {
    /// Reads paths from their text form.
    ///
    /// # Errors
    /// An empty name or an open quote, with the path in question.
    pub fn parse<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let mut root = Node::default();
        for path in paths {
            let mut node = &mut root;
            for name in names(path.as_ref())? {
                let mut key = Vec::new();
                write_string(&name, &mut key);
                let at = node.children.iter().position(|(have, _)| *have == key).unwrap_or_else(|| {
                    node.children.push((key, Node::default()));
                    node.children.len() - 1
                });
                node = &mut node.children[at].1;
            }
            node.end = true;
        }
        Ok(Self { root })
    }

    /// Whether one of them names a whole field of the document itself, by this name.
    pub fn has(&self, name: &str) -> bool {
        let mut key = Vec::new();
        write_string(name, &mut key);
        self.root.child(&key).is_some_and(|node| node.end)
    }

    /// Whether all of them name whole fields of the document itself, and none a part of one.
    pub fn are_names(&self) -> bool {
        self.root.children.iter().all(|(_, node)| node.children.is_empty())
    }

    /// Whether there is no path at all.
    pub fn is_empty(&self) -> bool {
        self.root.children.is_empty()
    }
}

fn names(path: &str) -> Result<Vec<String>, String> {
    let bad = || format!("expected a path such as Owners.PrimaryOwner.PersonId, found \"{path}\"");
    let mut names = Vec::new();
    let mut rest = path;
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(bad)?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        if name.is_empty() {
            return Err(bad());
        }
        names.push(name.to_owned());
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(names),
            None => return Err(bad()),
        }
    }
}

/// Writes the object `json` with only `keep` (all where empty) and without `drop`, and with one more field at its end.
///
/// `None` when `json` is not an object in valid JSON; `out` then holds a part of it.
pub fn project(json: &[u8], keep: &Paths, drop: &Paths, extra: Option<(&str, &[u8])>, out: &mut Vec<u8>) -> Option<()> {
    let mut drop = drop.clone();
    let extra = extra.map(|(name, value)| {
        let mut key = Vec::new();
        write_string(name, &mut key);
        // The added field takes the place of one that the document has under the same name.
        drop.root.children.retain(|(have, _)| *have != key);
        drop.root.children.push((key.clone(), Node { end: true, ..Node::default() }));
        (key, value)
    });
    let mut projector = Projector { cursor: Cursor::new(json), out };
    if projector.cursor.peek()? != b'{' {
        return None;
    }
    projector.object((!keep.is_empty()).then_some(&keep.root), Some(&drop.root))?;
    if !projector.cursor.at_end() {
        return None;
    }
    if let Some((key, value)) = extra {
        let empty = out.ends_with(b"{}");
        out.pop();
        if !empty {
            out.push(b',');
        }
        out.extend_from_slice(&key);
        out.push(b':');
        out.extend_from_slice(value);
        out.push(b'}');
    }
    Some(())
}

struct Projector<'a> {
    cursor: Cursor<'a>,
    out: &'a mut Vec<u8>,
}

impl Projector<'_> {
    fn object(&mut self, keep: Option<&Node>, drop: Option<&Node>) -> Option<()> {
        self.cursor.advance();
        self.out.push(b'{');
        let mut first = true;
        while let Some(key) = self.cursor.next_field()? {
            let (kept, keep_below) = match keep.map(|node| node.child(key)) {
                None => (true, None),
                Some(None) => (false, None),
                Some(Some(node)) => (true, (!node.end).then_some(node)),
            };
            let drop_below = drop.and_then(|node| node.child(key));
            if !kept || drop_below.is_some_and(|node| node.end) {
                self.cursor.value()?;
                continue;
            }
            let before = self.out.len();
            if !first {
                self.out.push(b',');
            }
            self.out.extend_from_slice(key);
            self.out.push(b':');
            if self.value(keep_below, drop_below)? {
                first = false;
            } else {
                self.out.truncate(before);
            }
        }
        self.out.push(b'}');
        Some(())
    }

    /// Copies a value; `Some(false)` when a path leads into a value that has no fields, so that nothing of it is meant.
    fn value(&mut self, keep: Option<&Node>, drop: Option<&Node>) -> Option<bool> {
        match self.cursor.peek()? {
            b'{' if keep.is_some() || drop.is_some() => self.object(keep, drop).map(|()| true),
            b'[' if keep.is_some() || drop.is_some() => self.list(keep, drop).map(|()| true),
            _ => {
                self.out.extend_from_slice(self.cursor.value()?);
                Some(keep.is_none())
            }
        }
    }

    fn list(&mut self, keep: Option<&Node>, drop: Option<&Node>) -> Option<()> {
        self.cursor.advance();
        self.out.push(b'[');
        let mut first = true;
        while self.cursor.next_element(b']')? {
            let before = self.out.len();
            if !first {
                self.out.push(b',');
            }
            if self.value(keep, drop)? {
                first = false;
            } else {
                self.out.truncate(before);
            }
        }
        self.out.push(b']');
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = r#"{"a":1,"b":{"c":[1,{"d":2,"e":"x\"}"}],"f":442.30},"g.h":null}"#;

    fn projected(keep: &[&str], drop: &[&str], extra: Option<(&str, &[u8])>) -> String {
        let mut out = Vec::new();
        project(DOC.as_bytes(), &Paths::parse(keep).unwrap(), &Paths::parse(drop).unwrap(), extra, &mut out).unwrap();
        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_the_chosen_fields_are_kept() {
        assert_eq!(projected(&["a"], &[], None), r#"{"a":1}"#);
        assert_eq!(projected(&["b.f", "nothing"], &[], None), r#"{"b":{"f":442.30}}"#);
        assert_eq!(projected(&["b.c.d"], &[], None), r#"{"b":{"c":[{"d":2}]}}"#);
        assert_eq!(projected(&["\"g.h\"", "a.x"], &[], None), r#"{"g.h":null}"#);
        assert_eq!(projected(&["nothing"], &[], None), "{}");
    }

    #[test]
    fn excluded_fields_are_left_out() {
        assert_eq!(projected(&[], &["b"], None), r#"{"a":1,"g.h":null}"#);
        assert_eq!(projected(&[], &["b.c.e", "a.b"], None), r#"{"a":1,"b":{"c":[1,{"d":2}],"f":442.30},"g.h":null}"#);
        assert_eq!(projected(&["b"], &["b.c"], None), r#"{"b":{"f":442.30}}"#);
    }

    #[test]
    fn an_added_field_takes_the_place_of_one_with_its_name() {
        assert_eq!(projected(&["a"], &[], Some(("_ledger", b"{}"))), r#"{"a":1,"_ledger":{}}"#);
        assert_eq!(projected(&["a"], &[], Some(("a", b"2"))), r#"{"a":2}"#);
    }

    #[test]
    fn names_of_whole_fields_are_told_from_paths() {
        let paths = |paths: &[&str]| Paths::parse(paths).unwrap();
        assert!(paths(&["a", "\"g.h\""]).has("g.h") && !paths(&["b.c"]).has("b") && !paths(&["a"]).has("A"));
        assert!(paths(&["a", "\"g.h\""]).are_names() && paths(&[]).are_names() && !paths(&["a", "a.b"]).are_names());
    }

    #[test]
    fn a_path_that_names_nothing_is_refused() {
        for path in ["", ".", "a.", ".a", "a..b", "\"a", "\"a\"b"] {
            assert!(Paths::parse([path]).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_not_projected() {
        for json in ["", "[1]", "{", "{\"a\"", "{\"a\":1", "{\"a\":1}x", "{\"a\":}"] {
            assert_eq!(project(json.as_bytes(), &Paths::default(), &Paths::parse(["b"]).unwrap(), None, &mut Vec::new()), None, "{json}");
        }
    }
}
