//! From counts to a mapping: one type per field, wide enough for everything that was counted there.
//!
//! Never chooses a type that would refuse one of the values, however rare it was.

use serde_json::{Map, Value, json};

use super::{Census, Conflict, Field, Inferred, Kind, MAX_DEPTH, MAX_FIELDS, Seen};

/// `index.mapping.total_fields.limit` of a server that was told nothing else. Objects and sub-fields count.
const DEFAULT_FIELD_LIMIT: usize = 1_000;
/// Longer strings stay in the document and out of the index: a term may have 32,766 bytes, four per character.
const KEYWORD_LIMIT: u32 = 8_191;
/// The same for the exact form of text.
const SUB_KEYWORD_LIMIT: u32 = 256;

pub(super) fn fit(root: &Field, census: &Census) -> Inferred {
    let mut fit = Fit { documents: census.documents, ..Fit::default() };
    let mut mappings = fit.object(root, "", 0);
    mappings.insert("date_detection".to_owned(), json!(false));
    mappings.insert("numeric_detection".to_owned(), json!(false));
    mappings.insert("dynamic_templates".to_owned(), json!([{"decimals": {"match_mapping_type": "double", "mapping": {"type": "double"}}}]));
    let mut mapping = json!({"mappings": mappings});
    if census.unreadable > 0 {
        let why = format!("expected a JSON object, found something else in {} documents; the server refuses them", census.unreadable);
        fit.conflict("", Vec::new(), "nothing", why);
    }
    if census.refused_unnamed > 0 {
        let why =
            format!("{} more members have names that the server refuses, their documents become dead letters", census.refused_unnamed);
        fit.conflict("", Vec::new(), "nothing", why);
    }
    if fit.mapped > DEFAULT_FIELD_LIMIT {
        let limit = (fit.mapped / DEFAULT_FIELD_LIMIT + 1) * DEFAULT_FIELD_LIMIT;
        mapping["settings"] = json!({"index.mapping.total_fields.limit": limit});
        let why = format!(
            "{} fields with objects and sub-fields, a server takes {DEFAULT_FIELD_LIMIT} unless told otherwise; every field costs memory on every node",
            fit.mapped
        );
        fit.conflict("", Vec::new(), &format!("index.mapping.total_fields.limit {limit}"), why);
    }
    Inferred { mapping, conflicts: fit.conflicts, fields: fit.fields, documents: census.documents }
}

/// What a field comes to.
enum Fitted {
    /// Its mapping.
    Mapped(Value),
    /// No value was seen.
    Nothing,
    /// An object below the depth that a mapping may have.
    TooDeep,
}

#[derive(Default)]
struct Fit {
    documents: u64,
    conflicts: Vec<Conflict>,
    fields: Vec<Seen>,
    mapped: usize,
}

impl Fit {
    /// An object's `properties`, and `dynamic: false` where some of its members could not be given a mapping.
    fn object(&mut self, field: &Field, path: &str, depth: usize) -> Map<String, Value> {
        let mut properties = Map::new();
        let mut closed = field.overflow > 0;
        if closed {
            let why = format!("{} values in fields past the {MAX_FIELDS} that are kept, or with names too long to keep", field.overflow);
            self.conflict(path, Vec::new(), "dynamic: false, such fields stay in the document and out of the index", why);
        }
        for (name, count) in &field.refused {
            let (chosen, why) = match name.trim_end_matches('.') {
                bare if bare.is_empty() || bare.len() == name.len() || bare.starts_with('.') || bare.contains("..") => {
                    ("nothing", "the server refuses this name; the documents that hold it become dead letters")
                }
                bare => (bare, "the server reads this name without its final dots, and refuses documents with an unknown field inside it"),
            };
            self.conflict(&join(path, name), Vec::new(), chosen, format!("{why}; seen {count} times"));
        }
        for (name, child) in &field.children {
            match self.field(child, &join(path, name), depth + 1) {
                Fitted::Mapped(mapping) => {
                    properties.insert(name.as_ref().to_owned(), mapping);
                }
                Fitted::Nothing => {}
                Fitted::TooDeep => closed = true,
            }
        }
        let mut object = Map::new();
        if closed {
            object.insert("dynamic".to_owned(), json!(false));
        }
        object.insert("properties".to_owned(), Value::Object(properties));
        object
    }

    fn field(&mut self, field: &Field, path: &str, depth: usize) -> Fitted {
        let place = self.fields.len();
        let absent = self.documents - field.documents;
        self.fields.push(Seen { path: path.to_owned(), mapped: None, seen: field.documents, absent });
        if field.of(Kind::DeepArray) > 0 {
            let why = "arrays in arrays, deeper than the server takes; the documents become dead letters".to_owned();
            self.conflict(path, found(field), "nothing", why);
        }
        let values: u64 = field.kinds.iter().sum::<u64>() - field.of(Kind::Object) - field.of(Kind::DeepArray);
        let objects = field.of(Kind::Object);
        if objects > 0 && depth == MAX_DEPTH {
            let why = format!("an object below {} others, deeper than a mapping may be", depth - 1);
            self.conflict(path, found(field), "dynamic: false on the object around it, not indexed", why);
            self.list_unmapped(field, path);
            return Fitted::TooDeep;
        }
        if objects > 0 && values > 0 {
            let why =
                "objects and plain values in one field, no type takes both; it stays in the document and cannot be searched".to_owned();
            self.conflict(path, found(field), "object, enabled: false", why);
            self.list_unmapped(field, path);
            self.mapped += 1;
            self.fields[place].mapped = Some("object");
            // `dynamic` too: a name with dots would otherwise add a field inside the switched-off object.
            return Fitted::Mapped(json!({"type": "object", "enabled": false, "dynamic": false}));
        }
        if objects > 0 {
            self.mapped += 1;
            self.fields[place].mapped = Some("object");
            let mut object = self.object(field, path, depth);
            object.insert("type".to_owned(), json!("object"));
            return Fitted::Mapped(Value::Object(object));
        }
        if values == 0 {
            return Fitted::Nothing;
        }
        let (chosen, why) = choose(field);
        if let Some(why) = why {
            self.conflict(path, found(field), chosen.name(), why.to_owned());
        }
        self.mapped += chosen.cost();
        self.fields[place].mapped = Some(chosen.name());
        Fitted::Mapped(chosen.mapping())
    }

    fn list_unmapped(&mut self, field: &Field, path: &str) {
        for (name, child) in &field.children {
            let path = join(path, name);
            let absent = self.documents - child.documents;
            self.fields.push(Seen { path: path.clone(), mapped: None, seen: child.documents, absent });
            self.list_unmapped(child, &path);
        }
    }

    fn conflict(&mut self, path: &str, found: Vec<(Kind, u64)>, chosen: &str, why: String) {
        self.conflicts.push(Conflict { path: path.to_owned(), found, chosen: chosen.to_owned(), why });
    }
}

fn found(field: &Field) -> Vec<(Kind, u64)> {
    Kind::ALL.into_iter().map(|kind| (kind, field.of(kind))).filter(|(_, count)| *count > 0).collect()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The types that plain values are given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Boolean,
    Long,
    Double,
    Date,
    Keyword,
    Text,
}

impl Chosen {
    fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Long => "long",
            Self::Double => "double",
            Self::Date => "date",
            Self::Keyword => "keyword",
            Self::Text => "text",
        }
    }

    fn mapping(self) -> Value {
        match self {
            Self::Keyword => json!({"type": "keyword", "ignore_above": KEYWORD_LIMIT}),
            Self::Text => json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": SUB_KEYWORD_LIMIT}}}),
            plain => json!({"type": plain.name()}),
        }
    }

    /// How many fields it is to the server.
    fn cost(self) -> usize {
        if self == Self::Text { 2 } else { 1 }
    }
}

/// The type for plain values, and what to tell where something is lost by it.
fn choose(field: &Field) -> (Chosen, Option<&'static str>) {
    let of = |kinds: &[Kind]| kinds.iter().map(|kind| field.of(*kind)).sum::<u64>();
    let booleans = of(&[Kind::Boolean]);
    let beyond = of(&[Kind::HugeNumber, Kind::OverlongNumber]);
    let numbers = of(&[Kind::Long, Kind::BigInteger, Kind::Double]) + beyond;
    let dates = of(&[Kind::Date]);
    let strings = of(&[Kind::Date, Kind::PartialDate, Kind::Code, Kind::Word, Kind::Text]);

    let mixed = [booleans, numbers, strings].iter().filter(|count| **count > 0).count() > 1;
    if mixed {
        let why = "values of several types in one field; each is indexed as text, so ranges and sums do not work";
        return (exact_or_text(field), Some(why));
    }
    if booleans > 0 {
        return (Chosen::Boolean, None);
    }
    if numbers > 0 {
        return if of(&[Kind::OverlongNumber]) > 0 {
            (Chosen::Keyword, Some("a number with more than 1000 characters; the documents that hold it become dead letters"))
        } else if beyond > 0 {
            (Chosen::Keyword, Some("numbers past the range of a double; each is indexed as text, so ranges and sums do not work"))
        } else if of(&[Kind::Double]) > 0 && of(&[Kind::BigInteger]) > 0 {
            (Chosen::Double, Some("integers beyond 64 bits among decimals; they are found as the nearest double only"))
        } else if of(&[Kind::BigInteger]) > 0 {
            (Chosen::Keyword, Some("integers beyond 64 bits; each is indexed as text, so ranges and sums do not work"))
        } else if of(&[Kind::Double]) > 0 {
            (Chosen::Double, None)
        } else {
            (Chosen::Long, None)
        };
    }
    let undated = strings - of(&[Kind::Date, Kind::PartialDate]);
    if dates > 0 && undated == 0 {
        return (Chosen::Date, None);
    }
    let why = (dates > 0 && undated * 2 <= strings).then_some("most strings are dates, but not all; a date field would refuse the others");
    (exact_or_text(field), why)
}

/// `keyword` for fields of codes: no string is long or has blanks, and at least three in four hold a digit. A word or a name is looked
/// for in any case of letters, so it is text.
fn exact_or_text(field: &Field) -> Chosen {
    let words = field.of(Kind::Word);
    let values: u64 = field.kinds.iter().sum();
    if field.of(Kind::Text) > 0 || words * 4 > values { Chosen::Text } else { Chosen::Keyword }
}
