//! Expressions against a second opinion: random ones on random rows, also asked of SQLite, where both define the same.
//!
//! The columns of a row are members of its document here, and parameters with names there. Types are kept apart, since SQLite converts what does not fit
//! and a query does not: every expression is a truth, an integer or a text, each of which may be null. Sizes are such that no integer of 64 bits overflows.
//! `REVSYNC_TEST_LONG=1` asks a hundred times as much.

use revsync::plan::query::{Op, Place, Query, Row};
use rusqlite::types::Value;

use crate::dice::Dice;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Truth,
    Integer,
    Text,
}

const COLUMNS: [(&str, Kind); 9] = [
    ("i", Kind::Integer),
    ("j", Kind::Integer),
    ("k", Kind::Integer),
    ("s", Kind::Text),
    ("t", Kind::Text),
    ("u", Kind::Text),
    ("p", Kind::Truth),
    ("q", Kind::Truth),
    ("r", Kind::Truth),
];
const TEXTS: [&str; 12] = ["", "a", "A", "ab", "b", " a b ", "%", "a_b", "it's", "é", "\u{ff5e}", "😀"];
const INTEGERS: [i64; 9] = [0, 1, 2, 3, -1, -2, 7, 100, -4096];
const PATTERNS: [&str; 9] = ["%", "_", "a%", "%b", "%a%", "", "__", "A_", "a!_b"];
const COMPARISONS: [&str; 7] = ["=", "<>", "!=", "<", "<=", ">", ">="];

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// An expression of a kind, in parentheses where it is more than a word.
fn inner(dice: &mut Dice, kind: Kind, depth: usize) -> String {
    if depth == 0 || dice.percent(25) {
        return leaf(dice, kind);
    }
    format!("({})", expression(dice, kind, depth - 1))
}

fn leaf(dice: &mut Dice, kind: Kind) -> String {
    if dice.percent(65) {
        let columns: Vec<&str> = COLUMNS.iter().filter(|(_, other)| *other == kind).map(|(name, _)| *name).collect();
        return (*dice.pick(&columns)).to_owned();
    }
    match kind {
        Kind::Truth => (*dice.pick(&["TRUE", "FALSE"])).to_owned(),
        Kind::Integer => dice.pick(&INTEGERS).to_string(),
        Kind::Text => text(dice.pick::<&str>(&TEXTS)),
    }
}

fn list(dice: &mut Dice, kind: Kind, depth: usize) -> String {
    let items: Vec<String> = (0..dice.between(1, 4)).map(|_| inner(dice, kind, depth)).collect();
    items.join(", ")
}

fn expression(dice: &mut Dice, kind: Kind, depth: usize) -> String {
    let any = |dice: &mut Dice| inner(dice, kind, depth);
    match dice.below(12) {
        0 => {
            let (when, then, otherwise) = (inner(dice, Kind::Truth, depth), any(dice), any(dice));
            let more =
                if dice.percent(50) { format!(" WHEN {} THEN {}", inner(dice, Kind::Truth, depth), any(dice)) } else { String::new() };
            let otherwise = if dice.percent(70) { format!(" ELSE {otherwise}") } else { String::new() };
            format!("CASE WHEN {when} THEN {then}{more}{otherwise} END")
        }
        1 => {
            let of = *dice.pick(&[Kind::Integer, Kind::Text]);
            let (value, when, then) = (inner(dice, of, depth), inner(dice, of, depth), any(dice));
            format!("CASE {value} WHEN {when} THEN {then} ELSE {} END", any(dice))
        }
        2 => format!("COALESCE({}, {})", any(dice), list(dice, kind, depth)),
        3 => format!("NULLIF({}, {})", any(dice), any(dice)),
        _ => match kind {
            Kind::Truth => truth(dice, depth),
            Kind::Integer => integer(dice, depth),
            Kind::Text => word(dice, depth),
        },
    }
}

/// Without parentheses of its own, so that what binds more tightly matters.
fn logic(dice: &mut Dice, depth: usize) -> String {
    let parts: Vec<String> = (0..dice.between(2, 4))
        .map(|_| {
            let not = if dice.percent(30) { "NOT " } else { "" };
            format!("{not}{}", if dice.percent(50) { predicate(dice, depth) } else { inner(dice, Kind::Truth, depth) })
        })
        .collect();
    parts.into_iter().reduce(|all, part| format!("{all} {} {part}", dice.pick(&["AND", "OR"]))).unwrap_or_default()
}

fn truth(dice: &mut Dice, depth: usize) -> String {
    if dice.percent(50) { logic(dice, depth) } else { predicate(dice, depth) }
}

fn predicate(dice: &mut Dice, depth: usize) -> String {
    let kind = *dice.pick(&[Kind::Integer, Kind::Integer, Kind::Text, Kind::Text, Kind::Truth]);
    let not = if dice.percent(40) { "NOT " } else { "" };
    let tested = inner(dice, kind, depth);
    match dice.below(8) {
        0..3 => format!("{tested} {} {}", dice.pick(&COMPARISONS), inner(dice, kind, depth)),
        3 => format!("{tested} {not}IN ({})", list(dice, kind, depth)),
        4 => format!("{tested} {not}BETWEEN {} AND {}", inner(dice, kind, depth), inner(dice, kind, depth)),
        5 => format!("{} {not}LIKE {} ESCAPE '!'", inner(dice, Kind::Text, depth), text(dice.pick::<&str>(&PATTERNS))),
        6 => format!("{tested} IS {not}NULL"),
        _ => format!("{} IS {not}{}", inner(dice, Kind::Truth, depth), dice.pick(&["TRUE", "FALSE"])),
    }
}

/// Without parentheses of its own. A product has few factors, so that it stays small.
fn sum(dice: &mut Dice, depth: usize) -> String {
    let mut text = String::new();
    for at in 0..dice.between(2, 4) {
        if at > 0 {
            text.push_str(dice.pick::<&str>(&[" + ", " - "]));
        }
        if dice.percent(20) {
            text.push_str("- ");
        }
        text.push_str(&inner(dice, Kind::Integer, depth));
        if dice.percent(25) {
            text.push_str(&format!(" * {}", dice.pick(&["i", "j", "3", "- k"])));
        }
    }
    text
}

fn integer(dice: &mut Dice, depth: usize) -> String {
    match dice.below(5) {
        0 => format!("LENGTH({})", inner(dice, Kind::Text, depth)),
        1 => format!("ABS({})", inner(dice, Kind::Integer, depth)),
        _ => sum(dice, depth),
    }
}

fn word(dice: &mut Dice, depth: usize) -> String {
    let argument = inner(dice, Kind::Text, depth);
    match dice.below(8) {
        0 | 1 => format!("{argument} || {}", inner(dice, Kind::Text, depth)),
        // In a text without letters that only one of the two knows small and large.
        2 => format!("{}({})", dice.pick(&["UPPER", "LOWER"]), text(dice.pick::<&str>(&["aB", "it's", "x%"]))),
        3 => format!("{}({argument})", dice.pick(&["TRIM", "LTRIM", "RTRIM"])),
        4 => format!("{}({argument}, {})", dice.pick(&["TRIM", "LTRIM", "RTRIM"]), text(dice.pick::<&str>(&["a", " a", "%_", "é"]))),
        // An empty part is nowhere for both, but SQLite then does not look whether the other is null.
        5 => format!("REPLACE({argument}, {}, {})", text(dice.pick::<&str>(&TEXTS[1..])), inner(dice, Kind::Text, 0)),
        6 => format!("SUBSTR({argument}, {})", dice.between(1, 4)),
        _ => format!("SUBSTR({argument}, {}, {})", dice.between(1, 4), dice.between(0, 3)),
    }
}

fn cell(dice: &mut Dice, kind: Kind) -> Value {
    if dice.percent(25) {
        return Value::Null;
    }
    match kind {
        Kind::Truth => Value::Integer(i64::from(dice.percent(50))),
        Kind::Integer => Value::Integer(*dice.pick(&INTEGERS)),
        Kind::Text => Value::Text((*dice.pick(&TEXTS)).to_owned()),
    }
}

/// The members of a document; a null is there as null, or not there.
fn document(dice: &mut Dice, cells: &[Value]) -> String {
    let mut members = serde_json::Map::new();
    for ((name, kind), cell) in COLUMNS.iter().zip(cells) {
        let json = match cell {
            Value::Null if dice.percent(50) => continue,
            Value::Integer(value) if *kind == Kind::Truth => serde_json::Value::from(*value == 1),
            Value::Integer(value) => serde_json::Value::from(*value),
            Value::Text(text) => serde_json::Value::from(text.as_str()),
            _ => serde_json::Value::Null,
        };
        members.insert((*name).to_owned(), json);
    }
    serde_json::Value::Object(members).to_string()
}

struct Oracle(rusqlite::Connection);

impl Oracle {
    fn new() -> Self {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA case_sensitive_like = ON").unwrap();
        let columns: Vec<String> = COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
        connection.execute_batch(&format!("CREATE TABLE x ({})", columns.join(", "))).unwrap();
        Self(connection)
    }

    /// The table has this one row from now on.
    fn row(&self, cells: &[Value]) {
        self.0.execute_batch("DELETE FROM x").unwrap();
        self.0.execute("INSERT INTO x VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rusqlite::params_from_iter(cells)).unwrap();
    }

    fn value(&self, kind: Kind, expression: &str) -> String {
        let value = self.0.query_row(&format!("SELECT {expression} FROM x"), [], |row| row.get::<_, Value>(0));
        match value.unwrap_or_else(|error| panic!("{expression}: {error}")) {
            Value::Null => "null".to_owned(),
            Value::Integer(value) if kind == Kind::Truth => (value == 1).to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Text(text) => serde_json::Value::from(text).to_string(),
            other => panic!("{expression}: {other:?}"),
        }
    }

    fn has_row(&self, condition: &str) -> bool {
        self.0.query_row(&format!("SELECT COUNT(*) FROM x WHERE {condition}"), [], |row| row.get::<_, i64>(0)).unwrap() == 1
    }
}

fn row(document: &str) -> Row<'_> {
    Row {
        table: "x",
        op: Op::Index,
        data: Some(document.as_bytes()),
        committed: None,
        time: None,
        partition: Place::Number(0),
        offset: Place::Number(0),
    }
}

fn read(seed: u64, sql: &str) -> Query {
    Query::parse(sql, 0).unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}"))
}

fn value(query: &Query, document: &str) -> String {
    let mut values = Vec::new();
    assert!(query.answer(&row(document), &mut values));
    let mut json = Vec::new();
    values[0].write_json(&mut json);
    // Two ways to escape a text are one text.
    serde_json::from_slice::<serde_json::Value>(&json).unwrap().to_string()
}

fn cases(few: u64) -> u64 {
    if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { few * 100 } else { few }
}

/// Asks both the same, on several rows, and gives what they answered.
fn agree(seed: u64, oracle: &Oracle, kind: Kind) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let depth = dice.between(0, 3);
    let expression = expression(&mut dice, kind, depth);
    let selected = read(seed, &format!("SELECT {expression} FROM x"));
    let filtered = (kind == Kind::Truth).then(|| read(seed, &format!("SELECT i FROM x WHERE {expression}")));
    let mut answers = Vec::new();
    for _ in 0..6 {
        let cells: Vec<Value> = COLUMNS.iter().map(|(_, kind)| cell(&mut dice, *kind)).collect();
        let document = document(&mut dice, &cells);
        oracle.row(&cells);
        let expected = oracle.value(kind, &expression);
        assert_eq!(value(&selected, &document), expected, "seed {seed}: {expression} on {document}");
        if let Some(filtered) = &filtered {
            let found = filtered.answer(&row(&document), &mut Vec::new());
            assert_eq!(found, oracle.has_row(&expression), "seed {seed}: WHERE {expression} on {document}");
        }
        answers.push(expected);
    }
    answers
}

/// Asserts that an answer occurred, and others did, often enough to mean something.
fn occurred(answers: &[String], wanted: &str) {
    let times = answers.iter().filter(|answer| *answer == wanted).count();
    assert!(times * 20 > answers.len() && times * 20 < answers.len() * 19, "{wanted} occurred {times} times of {}", answers.len());
}

#[test]
fn a_condition_has_the_three_values_that_sqlite_gives_it() {
    let oracle = Oracle::new();
    let answers: Vec<String> = (0..cases(1_500)).flat_map(|seed| agree(seed, &oracle, Kind::Truth)).collect();
    for answer in ["true", "false", "null"] {
        occurred(&answers, answer);
    }
}

#[test]
fn integers_come_to_what_sqlite_makes_of_them() {
    let oracle = Oracle::new();
    let answers: Vec<String> = (0..cases(700)).flat_map(|seed| agree(seed, &oracle, Kind::Integer)).collect();
    occurred(&answers, "null");
}

#[test]
fn texts_come_to_what_sqlite_makes_of_them() {
    let oracle = Oracle::new();
    let answers: Vec<String> = (0..cases(700)).flat_map(|seed| agree(seed, &oracle, Kind::Text)).collect();
    occurred(&answers, "null");
}
