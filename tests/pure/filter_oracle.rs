//! WHERE against a second opinion: random conditions on random documents, judged by an evaluator that does everything the slow and obvious way.
//!
//! The evaluator shares nothing with the product: it walks a tree, tries every pair, and has its own numbers (thousandths) and its own LIKE. Documents and
//! conditions are written out with chance in the spelling: zeros, exponents, escapes, white space, parentheses.

use revsync::plan::filter::Filter;

use crate::dice::Dice;

#[derive(Debug, Clone)]
enum Json {
    Null,
    Bool(bool),
    Thousandths(i64),
    Text(&'static str),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

const NAMES: [&str; 4] = ["a", "b", "c.d", "é"];
const TEXTS: [&str; 9] = ["", "a", "ab", "b%", "é", "\u{ff5e}", "😀", "1", "it's \"x\"\\"];
const NUMBERS: [i64; 9] = [1_000, 1_500, 0, 1, 10, -1_500, 2_000, 10_000, 442_300];

fn scalar(dice: &mut Dice) -> Json {
    // Few different values, so that some are equal.
    let few = dice.percent(60);
    match dice.below(10) {
        0 => Json::Null,
        1 | 2 => Json::Bool(dice.percent(50)),
        3..6 => Json::Text(dice.pick::<&str>(if few { &TEXTS[..2] } else { &TEXTS })),
        _ => Json::Thousandths(*dice.pick(if few { &NUMBERS[..2] } else { &NUMBERS })),
    }
}

fn json(dice: &mut Dice, depth: usize) -> Json {
    match dice.below(10) {
        0..4 if depth > 0 => Json::List((0..dice.below(4)).map(|_| json(dice, depth - 1)).collect()),
        4..6 if depth > 0 => object(dice, depth - 1),
        _ => scalar(dice),
    }
}

fn object(dice: &mut Dice, depth: usize) -> Json {
    let names: Vec<&str> = NAMES.into_iter().filter(|_| dice.percent(60)).collect();
    Json::Object(names.into_iter().map(|name| (name, json(dice, depth))).collect())
}

/// One of the ways to write a number down.
fn spelled(dice: &mut Dice, thousandths: i64) -> String {
    let sign = if thousandths < 0 || thousandths == 0 && dice.percent(30) { "-" } else { "" };
    let digits = thousandths.unsigned_abs();
    let (whole, rest) = (digits / 1_000, digits % 1_000);
    match dice.below(5) {
        0 if rest == 0 => format!("{sign}{whole}"),
        1 => format!("{sign}{digits}e-3"),
        2 => format!("{sign}{digits}00E-05"),
        3 => format!("{sign}0.{digits:09}e+6"),
        _ => format!("{sign}{whole}.{rest:03}{}", "0".repeat(dice.below(3))),
    }
}

fn space(dice: &mut Dice, out: &mut String) {
    if dice.percent(20) {
        out.push_str(dice.pick::<&str>(&[" ", "\n", "\t "]));
    }
}

fn write_text(dice: &mut Dice, text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if dice.percent(20) || matches!(c, '"' | '\\') {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

fn write(dice: &mut Dice, json: &Json, out: &mut String) {
    space(dice, out);
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(&value.to_string()),
        Json::Thousandths(value) => out.push_str(&spelled(dice, *value)),
        Json::Text(text) => write_text(dice, text, out),
        Json::List(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(dice, element, out);
            }
            out.push(']');
        }
        Json::Object(fields) => {
            out.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                space(dice, out);
                write_text(dice, name, out);
                space(dice, out);
                out.push(':');
                write(dice, value, out);
            }
            out.push('}');
        }
    }
    space(dice, out);
}

type Path = Vec<&'static str>;

#[derive(Debug, Clone)]
enum Side {
    Path(Path),
    Value(Json),
}

#[derive(Debug, Clone)]
enum Condition {
    Constant(bool),
    Bare(Path),
    Compare(Side, &'static str, Side),
    In(Path, bool, Vec<Json>),
    Between(Path, bool, Side, Side),
    Like(Path, bool, &'static str),
    Null(Path, bool),
    Missing(Path, bool),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

fn path(dice: &mut Dice) -> Path {
    (0..*dice.pick(&[1, 1, 1, 1, 2, 2, 3])).map(|_| *dice.pick(&NAMES)).collect()
}

fn value(dice: &mut Dice) -> Json {
    loop {
        match scalar(dice) {
            Json::Null => {}
            value => return value,
        }
    }
}

fn side(dice: &mut Dice) -> Side {
    if dice.percent(50) { Side::Path(path(dice)) } else { Side::Value(value(dice)) }
}

fn condition(dice: &mut Dice, depth: usize) -> Condition {
    let below = |dice: &mut Dice| Box::new(condition(dice, depth.saturating_sub(1)));
    match dice.below(if depth > 0 { 16 } else { 10 }) {
        0 if dice.percent(20) => Condition::Constant(dice.percent(50)),
        0 => Condition::Bare(path(dice)),
        1 => Condition::In(path(dice), dice.percent(40), (0..dice.between(1, 5)).map(|_| value(dice)).collect()),
        2 => Condition::Between(path(dice), dice.percent(40), side(dice), side(dice)),
        3 => Condition::Like(path(dice), dice.percent(40), dice.pick::<&str>(&["%", "_", "a%", "%b%", "", "%\\", "_t''s%"])),
        4 => Condition::Null(path(dice), dice.percent(50)),
        5 => Condition::Missing(path(dice), dice.percent(50)),
        6..10 => {
            let op = *dice.pick(&["=", "<>", "!=", "<", "<=", ">", ">="]);
            match side(dice) {
                Side::Value(value) => Condition::Compare(Side::Value(value), op, Side::Path(path(dice))),
                Side::Path(path) => Condition::Compare(Side::Path(path), op, side(dice)),
            }
        }
        10 | 11 => Condition::Not(below(dice)),
        12 | 13 => Condition::And(below(dice), below(dice)),
        _ => Condition::Or(below(dice), below(dice)),
    }
}

fn sql_path(path: &Path) -> String {
    path.iter().map(|name| if name.contains('.') { format!("\"{name}\"") } else { (*name).to_owned() }).collect::<Vec<_>>().join(".")
}

fn sql_value(dice: &mut Dice, value: &Json) -> String {
    match value {
        Json::Bool(value) => dice.pick(&if *value { ["TRUE", "true"] } else { ["FALSE", "False"] }).to_string(),
        Json::Thousandths(value) => spelled(dice, *value),
        Json::Text(text) => format!("'{}'", text.replace('\'', "''")),
        other => panic!("{other:?} is no value of a condition"),
    }
}

fn sql_side(dice: &mut Dice, side: &Side) -> String {
    match side {
        Side::Path(path) => sql_path(path),
        Side::Value(value) => sql_value(dice, value),
    }
}

/// Writes a condition with the parentheses that `within` makes necessary (0: none, 1: below OR, 2: below AND, 3: below NOT), and some that it does not.
fn sql(dice: &mut Dice, condition: &Condition, within: u8) -> String {
    let not = |negated: &bool| if *negated { " NOT" } else { "" };
    let (own, text) = match condition {
        Condition::Constant(value) => (4, sql_value(dice, &Json::Bool(*value))),
        Condition::Bare(path) => (4, sql_path(path)),
        Condition::Compare(left, op, right) => (4, format!("{} {op} {}", sql_side(dice, left), sql_side(dice, right))),
        Condition::In(path, negated, values) => {
            let values: Vec<String> = values.iter().map(|value| sql_value(dice, value)).collect();
            (4, format!("{}{} IN ({})", sql_path(path), not(negated), values.join(", ")))
        }
        Condition::Between(path, negated, low, high) => {
            let (low, high) = (sql_side(dice, low), sql_side(dice, high));
            (4, format!("{}{} BETWEEN {low} AND {high}", sql_path(path), not(negated)))
        }
        Condition::Like(path, negated, pattern) => (4, format!("{}{} LIKE '{pattern}'", sql_path(path), not(negated))),
        Condition::Null(path, negated) => (4, format!("{} IS{} NULL", sql_path(path), not(negated))),
        Condition::Missing(path, negated) => (4, format!("{} IS{} MISSING", sql_path(path), not(negated))),
        Condition::Not(inside) => (3, format!("NOT {}", sql(dice, inside, 3))),
        Condition::And(left, right) => (2, format!("{} AND {}", sql(dice, left, 2), sql(dice, right, 2))),
        Condition::Or(left, right) => (1, format!("{} OR {}", sql(dice, left, 1), sql(dice, right, 1))),
    };
    if own < within || dice.percent(10) { format!("({text})") } else { text }
}

/// Everything at a path: through lists at any place, and the elements of a list at its end.
fn at<'a>(json: &'a Json, path: &[&str]) -> Vec<&'a Json> {
    match (json, path) {
        (Json::List(elements), _) => elements.iter().flat_map(|element| at(element, path)).collect(),
        (_, []) => vec![json],
        (Json::Object(fields), [name, rest @ ..]) => {
            fields.iter().filter(|(have, _)| have == name).flat_map(|(_, value)| at(value, rest)).collect()
        }
        _ => vec![],
    }
}

/// Whether some object has the last name of a path.
fn is_there(json: &Json, path: &[&str]) -> bool {
    match (json, path) {
        (Json::List(elements), [_, ..]) => elements.iter().any(|element| is_there(element, path)),
        (_, []) => true,
        (Json::Object(fields), [name, rest @ ..]) => fields.iter().any(|(have, value)| have == name && is_there(value, rest)),
        _ => false,
    }
}

fn compare(a: &Json, op: &str, b: &Json) -> Option<bool> {
    let order = match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Thousandths(a), Json::Thousandths(b)) => a.cmp(b),
        (Json::Text(a), Json::Text(b)) => a.chars().cmp(b.chars()),
        _ => return None,
    };
    Some(match op {
        "=" => order.is_eq(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => order.is_ne(),
    })
}

fn or(truths: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let truths: Vec<Option<bool>> = truths.into_iter().collect();
    if truths.contains(&Some(true)) {
        Some(true)
    } else if truths.contains(&None) || truths.is_empty() {
        None
    } else {
        Some(false)
    }
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    not(or([not(a), not(b)]))
}

fn not(truth: Option<bool>) -> Option<bool> {
    truth.map(|truth| !truth)
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|taken| like(&text[taken..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}

fn values<'a>(json: &'a Json, side: &'a Side) -> Vec<&'a Json> {
    match side {
        Side::Path(path) => at(json, path),
        Side::Value(value) => vec![value],
    }
}

fn judge(condition: &Condition, json: &Json) -> Option<bool> {
    let negated_if = |negated: bool, truth: Option<bool>| if negated { not(truth) } else { truth };
    match condition {
        Condition::Constant(value) => Some(*value),
        Condition::Bare(path) => or(at(json, path).into_iter().map(|value| compare(value, "=", &Json::Bool(true)))),
        Condition::Compare(left, op, right) => {
            let (left, right) = (values(json, left), values(json, right));
            or(left.iter().flat_map(|a| right.iter().map(move |b| compare(a, op, b))))
        }
        Condition::In(path, negated, list) => {
            negated_if(*negated, or(at(json, path).into_iter().flat_map(|a| list.iter().map(move |b| compare(a, "=", b)))))
        }
        Condition::Between(path, negated, low, high) => {
            let (low, high) = (values(json, low), values(json, high));
            let pairs = |a: &Json| or(low.iter().flat_map(|l| high.iter().map(|h| and(compare(a, ">=", l), compare(a, "<=", h)))));
            // A bound that is not there is null: what the other one says may still be enough.
            let one = |a: &Json| match (low.is_empty(), high.is_empty()) {
                (false, false) => pairs(a),
                (true, false) => and(None, or(high.iter().map(|h| compare(a, "<=", h)))),
                (false, true) => and(or(low.iter().map(|l| compare(a, ">=", l))), None),
                (true, true) => None,
            };
            negated_if(*negated, or(at(json, path).into_iter().map(one)))
        }
        Condition::Like(path, negated, pattern) => {
            let pattern: Vec<char> = pattern.replace("''", "'").chars().collect();
            let one = |value: &Json| match value {
                Json::Text(text) => Some(like(&text.chars().collect::<Vec<_>>(), &pattern)),
                _ => None,
            };
            negated_if(*negated, or(at(json, path).into_iter().map(one)))
        }
        Condition::Null(path, negated) => Some(at(json, path).iter().all(|value| matches!(value, Json::Null)) != *negated),
        Condition::Missing(path, negated) => Some(is_there(json, path) == *negated),
        Condition::Not(inside) => not(judge(inside, json)),
        Condition::And(left, right) => and(judge(left, json), judge(right, json)),
        Condition::Or(left, right) => or([judge(left, json), judge(right, json)]),
    }
}

/// Asserts that the product and the evaluator agree on a condition and its opposite, and gives what they say.
fn agree(dice: &mut Dice, seed: u64, condition: &Condition, documents: &[Json]) -> Vec<Option<bool>> {
    let text = sql(dice, condition, 0);
    let read = |text: &str| Filter::parse(text).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
    let filters = [read(&text), read(&format!("NOT ({text})"))];
    let one = |document: &Json| {
        let mut json = String::new();
        write(dice, document, &mut json);
        let expected = judge(condition, document);
        let found = filters.each_ref().map(|filter| filter.matches(json.as_bytes()));
        assert_eq!(found, [Some(expected == Some(true)), Some(expected == Some(false))], "seed {seed}: {text} on {json}");
        expected
    };
    documents.iter().map(one).collect()
}

/// Asserts that true, false and unknown all occurred often enough to mean something.
fn all_occurred(seen: &[Option<bool>]) {
    for truth in [Some(true), Some(false), None] {
        let times = seen.iter().filter(|one| **one == truth).count();
        assert!(times * 20 > seen.len(), "{truth:?} occurred {times} times of {}", seen.len());
    }
}

#[test]
fn a_condition_says_of_a_document_what_the_slow_and_obvious_evaluator_says() {
    let mut seen = Vec::new();
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed);
        let depth = dice.below(4);
        let condition = condition(&mut dice, depth);
        let documents: Vec<Json> = (0..5).map(|_| object(&mut dice, 3)).collect();
        seen.extend(agree(&mut dice, seed, &condition, &documents));
    }
    all_occurred(&seen);
}

#[test]
fn two_lists_are_compared_as_all_their_pairs_are() {
    let mut seen = Vec::new();
    for seed in 0..700 {
        let mut dice = Dice::new(seed);
        let sides = [0, 1].map(|_| Side::Path(vec![*dice.pick(&["a", "b"])]));
        let [left, right] = sides;
        let condition = match dice.below(8) {
            0 => Condition::Between(vec!["a"], dice.percent(50), left, right),
            op => Condition::Compare(left, ["=", "<>", "!=", "<", "<=", ">", ">="][op - 1], right),
        };
        let list = |dice: &mut Dice| {
            let all = dice.percent(50);
            Json::List(
                (0..dice.between(1, 3)).map(|_| if all { scalar(dice) } else { Json::Thousandths(1_000 * dice.below(4) as i64) }).collect(),
            )
        };
        let documents: Vec<Json> = (0..10).map(|_| Json::Object(vec![("a", list(&mut dice)), ("b", list(&mut dice))])).collect();
        seen.extend(agree(&mut dice, seed, &condition, &documents));
    }
    all_occurred(&seen);
}
