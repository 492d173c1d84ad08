//! What a query says at its end: how it ended, what was scanned, and what could not be.
//!
//! Names tables and places, never a value of a document.

use std::fmt::Write;

use indicatif::HumanCount;

use crate::cli::report::duration;
use crate::cli::terminal::clean;
use crate::error::{Error, Kind};
use crate::run::query::{End, Scanned};

/// Names of tables that are told.
const TABLES: usize = 10;

/// How the scan ended, in a line; what ended it early is told too. `table` is the one that was asked for.
pub(super) fn end(end: &Result<End, Error>, scanned: &Scanned, table: Option<&str>, seconds: f64) -> String {
    let how = match end {
        Ok(End::Complete | End::NobodyLooks) => "complete",
        Ok(End::LimitReached) => "limit reached",
        Ok(End::NotProven) => "not proven complete",
        Err(error) if error.kind == Kind::Interrupted => "interrupted",
        Err(_) => "ended early",
    };
    let revisions = counted(scanned.revisions, "revision");
    let of = match table {
        Some(table) => format!("{revisions} of {}", clean(table)),
        None => revisions,
    };
    let why = match end {
        Ok(End::NotProven) => "; something of the source was lost before it could be read, came meanwhile, or its end was not found",
        _ => "",
    };
    format!("{how}: {} of {of}, {} scanned ({}){why}\n", rows(scanned.rows), counted(scanned.records, "record"), duration(seconds))
}

/// A number of rows.
pub(super) fn rows(count: u64) -> String {
    counted(count, "row")
}

fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}

/// The tables that there were, in a line, where the one that was asked for was not among them.
pub(super) fn tables(wanted: &str, found: &[String]) -> String {
    if found.iter().any(|table| table == wanted) {
        return String::new();
    }
    let (alike, others): (Vec<_>, Vec<_>) = found.iter().partition(|table| table.to_lowercase() == wanted.to_lowercase());
    let names = |names: &[&String]| names.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
    let mut text = format!("no table of the stream is named {}", clean(wanted));
    if !alike.is_empty() {
        let _ = write!(text, ", but {} is: upper and lower case count", names(&alike[..1]));
    } else if others.is_empty() {
        text.push_str(", and no other occurred");
    } else {
        let told = &others[..others.len().min(TABLES)];
        let _ = write!(text, "; there are {}", names(told));
        if others.len() > told.len() {
            let _ = write!(text, " and {} more", others.len() - told.len());
        }
    }
    text.push('\n');
    text
}

/// What may be why no row was found, in a line: a value in the quotes that make it a name, as other languages allow. Nothing where none is.
pub(super) fn quoted(asked: &str) -> String {
    let is_compared = |before: &str| before.trim_end().ends_with(['=', '<', '>']);
    let name = asked.match_indices('"').find(|(at, _)| is_compared(&asked[..*at])).and_then(|(at, _)| asked[at + 1..].split('"').next());
    match name.map(clean) {
        Some(name) => format!("\"{name}\" in double quotes is the name of a field; a text stands in single quotes\n"),
        None => String::new(),
    }
}

/// What could not be decoded, in a line; nothing where everything could.
pub(super) fn undecodable(scanned: &Scanned) -> String {
    let Some(((place, fault), others)) = scanned.told.split_first() else { return String::new() };
    let mut text = format!("{} could not be decoded, the first at {place}: {fault}", counted(scanned.undecodable, "record"));
    if !others.is_empty() {
        let places: Vec<String> = others.iter().map(|(place, _)| place.to_string()).collect();
        let more = if scanned.undecodable > scanned.told.len() as u64 { " …" } else { "" };
        let _ = write!(text, "; then at {}{more}", places.join(", "));
    }
    format!("{}\n", clean(&format!("{text}; revsync explain SOURCE tells each")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Fault, Position};
    use crate::run::place::Place;

    fn scanned(rows: u64, revisions: u64, records: u64) -> Scanned {
        Scanned { rows, revisions, records, ..Scanned::default() }
    }

    #[test]
    fn the_end_says_how_much_was_looked_at() {
        let person = Some("Person");
        assert_eq!(
            end(&Ok(End::Complete), &scanned(12, 1_083, 2_166), person, 0.44),
            "complete: 12 rows of 1,083 revisions of Person, 2,166 records scanned (0.4 s)\n"
        );
        assert_eq!(
            end(&Ok(End::LimitReached), &scanned(1, 1, 1), None, 75.0),
            "limit reached: 1 row of 1 revision, 1 record scanned (1 min 15 s)\n"
        );
        assert!(
            end(&Ok(End::NotProven), &scanned(0, 0, 0), person, 0.0)
                .ends_with("(0.0 s); something of the source was lost before it could be read, came meanwhile, or its end was not found\n")
        );
        assert!(end(&Err(Error::usage("x")), &scanned(0, 0, 0), None, 0.0).starts_with("ended early: "));
        assert!(!end(&Ok(End::Complete), &scanned(0, 0, 0), Some("a\u{1b}[2J"), 0.0).contains('\u{1b}'));
    }

    #[test]
    fn the_tables_that_there_are_are_told_where_the_one_asked_for_is_none_of_them() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(tables("Person", &names(&["Person", "Vehicle"])), "");
        assert_eq!(tables("Person", &[]), "no table of the stream is named Person, and no other occurred\n");
        assert_eq!(tables("T", &names(&["Person", "Vehicle"])), "no table of the stream is named T; there are Person, Vehicle\n");
        assert_eq!(
            tables("person", &names(&["Person", "Vehicle"])),
            "no table of the stream is named person, but Person is: upper and lower case count\n"
        );
        let many: Vec<String> = (10..25).map(|n| format!("T{n}")).collect();
        assert!(tables("T", &many).ends_with("T18, T19 and 5 more\n"), "{}", tables("T", &many));
    }

    #[test]
    fn a_text_in_the_quotes_of_a_name_is_told() {
        for asked in ["SELECT a FROM t WHERE op = \"index\"", "SELECT \"a\" FROM t WHERE op<>\"index\" AND b = \"c\""] {
            assert!(quoted(asked).starts_with("\"index\" in double quotes is the name of a field; "), "{}", quoted(asked));
        }
        assert_eq!(quoted("SELECT \"a\" FROM \"t\" WHERE \"a\" = 'x'"), "");
        assert!(!quoted("SELECT a FROM t WHERE a = \"\u{1b}[2J\"").contains('\u{1b}'));
    }

    #[test]
    fn what_could_not_be_decoded_is_told_with_its_places() {
        let place = |offset| Place { origin: "s.ion".to_owned(), position: Position::Byte { offset }, sub: None, unit: 0 };
        let told = |offsets: &[u64]| offsets.iter().map(|offset| (place(*offset), Fault::new("undecodable", "found\nnone"))).collect();
        assert_eq!(undecodable(&Scanned::default()), "");
        assert_eq!(
            undecodable(&Scanned { undecodable: 1, told: told(&[7]), ..Scanned::default() }),
            "1 record could not be decoded, the first at s.ion byte 7: undecodable: found none; revsync explain SOURCE tells each\n"
        );
        assert_eq!(
            undecodable(&Scanned { undecodable: 5, told: told(&[7, 8, 9]), ..Scanned::default() }),
            "5 records could not be decoded, the first at s.ion byte 7: undecodable: found none; then at s.ion byte 8, s.ion byte 9 …; \
             revsync explain SOURCE tells each\n"
        );
    }
}
