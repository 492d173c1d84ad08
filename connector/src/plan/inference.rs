//! The index mapping that fits the documents that were seen: every value is looked at once, only counts are kept.
//!
//! The mapping is meant to be read, pinned and used for a new index. It refuses nothing that was seen; where fields contradict
//! themselves it names the [`Conflict`] and takes the widest type. Never keeps a value of a document, and never more than
//! [`MAX_FIELDS`] fields. What a server accepts was measured on OpenSearch 2.19 and 3.9; the tables are in the tests beside this code.

mod fit;
mod form;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::revision::Document;

/// The most fields that are kept apart, objects included. Fields past it stay unmapped and are named as a conflict.
pub const MAX_FIELDS: usize = 2_000;
/// The most distinct refused names that are kept; further ones are only counted.
const MAX_REFUSED: usize = 100;
/// Field names longer than this are not kept (bytes).
const MAX_NAME: usize = 1_024;
/// An object field may have 19 names in its path (`index.mapping.depth.limit` 20), a value in it 20.
const MAX_DEPTH: usize = 20;
/// Arrays in arrays, counted along the whole path: one more is refused by the server whatever the mapping says.
const MAX_ARRAYS: usize = 20;
/// Names at the top of a document that belong to the server: such a document is refused whatever the mapping says.
const METADATA: [&str; 12] = [
    "_data_stream_timestamp",
    "_doc_count",
    "_field_names",
    "_id",
    "_ignored",
    "_index",
    "_nested_path",
    "_primary_term",
    "_routing",
    "_seq_no",
    "_source",
    "_version",
];

/// What one value was, as far as a mapping cares. `null` and empty arrays are nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// An integer within 64 signed bits.
    Long,
    /// An integer beyond 64 signed bits that a double can still come near to.
    BigInteger,
    /// A number with a fraction or an exponent.
    Double,
    /// A number past the range of a double.
    HugeNumber,
    /// A number written with more than 1,000 characters: the server refuses the document.
    OverlongNumber,
    /// A string that is a date down to the day or finer.
    Date,
    /// A string that is a year or a month, such as `2019-05`.
    PartialDate,
    /// A string that looks like an identifier: at most 64 ASCII letters, digits and `-_.:/+=`, with a digit.
    Code,
    /// The same without a digit, the empty string too.
    Word,
    /// Any other string.
    Text,
    /// An object.
    Object,
    /// An array inside more than 19 other arrays: the server refuses the document.
    DeepArray,
}

impl Kind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Boolean,
        Self::Long,
        Self::BigInteger,
        Self::Double,
        Self::HugeNumber,
        Self::OverlongNumber,
        Self::Date,
        Self::PartialDate,
        Self::Code,
        Self::Word,
        Self::Text,
        Self::Object,
        Self::DeepArray,
    ];

    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Long => "long",
            Self::BigInteger => "big_integer",
            Self::Double => "double",
            Self::HugeNumber => "huge_number",
            Self::OverlongNumber => "overlong_number",
            Self::Date => "date",
            Self::PartialDate => "partial_date",
            Self::Code => "code",
            Self::Word => "word",
            Self::Text => "text",
            Self::Object => "object",
            Self::DeepArray => "deep_array",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place where what was seen fits no single type, or fits no index at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The field's full path with dots; empty for the whole document.
    pub path: String,
    /// What was found, and how often. Empty where the number of fields is the trouble.
    pub found: Vec<(Kind, u64)>,
    /// What the mapping says now.
    pub chosen: String,
    /// Why, and what it costs.
    pub why: String,
}

/// One field that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The full path with dots.
    pub path: String,
    /// Its type in the mapping; `None` where it has none: only `null` and `[]` were seen, or it lies in an object that is not indexed.
    pub mapped: Option<&'static str>,
    /// Documents that hold a value there.
    pub seen: u64,
    /// Documents that do not, or only `null` and `[]`.
    pub absent: u64,
}

/// What the documents come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inferred {
    /// The body that creates an index (`PUT INDEX`): `mappings`, and `settings` only where the mapping needs one.
    pub mapping: serde_json::Value,
    /// What a person should look at before pinning it.
    pub conflicts: Vec<Conflict>,
    /// Every field, by path.
    pub fields: Vec<Seen>,
    /// Documents looked at.
    pub documents: u64,
}

/// Documents being looked at. One per index: documents of several tables of one index go into the same.
#[derive(Debug, Clone, Default)]
pub struct Inference {
    root: Field,
    census: Census,
}

/// One path of the documents.
#[derive(Debug, Clone, Default)]
struct Field {
    kinds: [u64; Kind::ALL.len()],
    /// Documents with a value here, and the last of them: an array may come here many times in one document.
    documents: u64,
    latest: u64,
    children: BTreeMap<Box<str>, Field>,
    /// Values whose field was not kept.
    overflow: u64,
    /// Names in this object that the server refuses.
    refused: BTreeMap<Box<str>, u64>,
}

impl Field {
    fn count(&mut self, kind: Kind, census: &Census) {
        self.kinds[kind as usize] += 1;
        if self.latest != census.documents {
            self.latest = census.documents;
            self.documents += 1;
        }
    }

    fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    fn child(&mut self, name: &str, census: &mut Census) -> Option<&mut Self> {
        if !self.children.contains_key(name) {
            if census.fields == MAX_FIELDS || name.len() > MAX_NAME {
                self.overflow += 1;
                return None;
            }
            census.fields += 1;
            self.children.insert(name.into(), Self::default());
        }
        self.children.get_mut(name)
    }

    fn refuse(&mut self, name: &str, census: &mut Census) {
        if let Some(count) = self.refused.get_mut(name) {
            *count += 1;
        } else if census.refused < MAX_REFUSED && name.len() <= MAX_NAME {
            census.refused += 1;
            self.refused.insert(name.into(), 1);
        } else {
            census.refused_unnamed += 1;
        }
    }
}

/// What is counted over all fields.
#[derive(Debug, Clone, Default)]
struct Census {
    documents: u64,
    unreadable: u64,
    fields: usize,
    refused: usize,
    refused_unnamed: u64,
}

impl Inference {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at one document, in one pass and a small multiple of its depth. Text that is no JSON object is counted and named at the end.
    pub fn observe(&mut self, document: &Document) {
        self.census.documents += 1;
        let mut json = serde_json::Deserializer::from_slice(document.as_bytes());
        let visit = Values { field: &mut self.root, census: &mut self.census, at: Place::default() };
        if json.deserialize_map(visit).and_then(|()| json.end()).is_err() {
            self.census.unreadable += 1;
        }
    }

    /// The mapping for everything that was seen so far.
    pub fn finish(&self) -> Inferred {
        fit::fit(&self.root, &self.census)
    }
}

/// How far down a value is: names in its path, and arrays around it.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    depth: usize,
    arrays: usize,
}

/// The values of one object or array, each looked at as raw text: a number must be told apart by how it is written.
struct Values<'a> {
    field: &'a mut Field,
    census: &'a mut Census,
    at: Place,
}

/// A field name, borrowed where it holds no escape.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.field.count(Kind::Object, self.census);
        while let Some(Name(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            member(&name, value.get(), self.field, self.census, self.at).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&RawValue>()? {
            value(element.get(), self.field, self.census, self.at).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

/// One member of an object. A name with dots is a path, as the server reads it. Dots at its end fall away there, mostly: such a name is
/// counted as refused and looked at all the same.
fn member(name: &str, raw: &str, object: &mut Field, census: &mut Census, at: Place) -> Result<(), serde_json::Error> {
    let path = name.trim_end_matches('.');
    let blank = |part: &str| part.is_empty() || (path.contains('.') && part.chars().all(char::is_whitespace));
    let metadata = at.depth == 0 && path.split('.').next().is_some_and(|first| METADATA.contains(&first));
    if metadata || path.split('.').any(blank) {
        object.refuse(name, census);
        return Ok(());
    }
    if path.len() < name.len() {
        object.refuse(name, census);
    }
    let mut at = at;
    let mut field = object;
    for (n, part) in path.split('.').enumerate() {
        if n > 0 {
            field.count(Kind::Object, census);
        }
        if at.depth == MAX_DEPTH {
            return Ok(());
        }
        at.depth += 1;
        let Some(child) = field.child(part, census) else { return Ok(()) };
        field = child;
    }
    value(raw, field, census, at)
}

fn value(raw: &str, field: &mut Field, census: &mut Census, at: Place) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(raw);
    match raw.as_bytes().first() {
        Some(b'{') if at.depth == MAX_DEPTH => field.count(Kind::Object, census),
        Some(b'{') => return json.deserialize_map(Values { field, census, at }),
        Some(b'[') if at.arrays == MAX_ARRAYS => field.count(Kind::DeepArray, census),
        Some(b'[') => {
            let at = Place { arrays: at.arrays + 1, ..at };
            return json.deserialize_seq(Values { field, census, at });
        }
        Some(b'"') => field.count(form::string(raw), census),
        Some(b't' | b'f') => field.count(Kind::Boolean, census),
        Some(b'n') | None => {}
        Some(_) => field.count(form::number(raw), census),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
