//! Search: the best documents, and fragments of their values with the matched words marked.
//!
//! Never falls back silently: what does not match every wanted word is no hit.

use rusqlite::{Connection, Transaction, params};
use serde_json::value::RawValue;

use super::super::Hit;
use super::schema::TOKENIZER;
use super::terms::Question;
use super::text::{BETWEEN, ZERO_WIDTH, searchable};
use crate::plan::names::matches;

/// Marks of a matched word in a fragment.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// Fragments of one hit, characters shown before the first match of a fragment, and from it on.
const FRAGMENTS: usize = 3;
const BEFORE: usize = 60;
const FROM: usize = 100;

/// The best `limit` documents of the indices that `index`, a name or a pattern with `*`, means; of all without it.
pub(super) fn find(connection: &mut Connection, question: &Question, index: Option<&str>, limit: usize) -> rusqlite::Result<Vec<Hit>> {
    // One transaction: the hits, their documents and their fragments come from one state of the index, whatever is written meanwhile.
    // It is rolled back at the end, and the temporary table with it.
    let transaction = connection.transaction()?;
    let keys = match index {
        None => None,
        Some(pattern) => keys(&transaction, pattern)?,
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut hits = hits(&transaction, question, keys.as_deref(), limit)?;
    if let Question::Matching(expression) = question {
        highlight(&transaction, expression, &mut hits)?;
    }
    Ok(hits)
}

/// The keys of the indices that a name or pattern means, as a JSON list: SQLite takes no list as a parameter. `None` when it means them
/// all, which spares a look at every matching document.
fn keys(transaction: &Transaction<'_>, pattern: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = transaction.prepare_cached("SELECT key, name FROM indices")?;
    let mut rows = statement.query([])?;
    let mut keys = Vec::new();
    let mut all = true;
    while let Some(row) = rows.next()? {
        if matches(pattern, row.get_ref(1)?.as_str()?) {
            keys.push(row.get::<_, i64>(0)?.to_string());
        } else {
            all = false;
        }
    }
    Ok((!all).then(|| format!("[{}]", keys.join(","))))
}

/// Each finds keys and scores: `?1` is the FTS5 expression, `?3` the list of index keys; one that a question does not have is null.
const MATCHING: &str = "SELECT rowid AS key, -bm25(words) AS score FROM words WHERE words MATCH ?1 AND ?3 IS NULL";
const MATCHING_WITHIN: &str = "SELECT documents.key AS key, -bm25(words) AS score
    FROM words CROSS JOIN documents ON documents.key = words.rowid
    WHERE words MATCH ?1 AND index_key IN (SELECT value FROM json_each(?3))";
const ALL_BUT: &str = "SELECT key, 0.0 AS score FROM documents
    WHERE source IS NOT NULL AND key NOT IN (SELECT rowid FROM words WHERE words MATCH ?1)
    AND (?3 IS NULL OR index_key IN (SELECT value FROM json_each(?3)))";
const EVERYTHING: &str = "SELECT key, 0.0 AS score FROM documents
    WHERE source IS NOT NULL AND ?1 IS NULL AND (?3 IS NULL OR index_key IN (SELECT value FROM json_each(?3)))";

fn hits(transaction: &Transaction<'_>, question: &Question, keys: Option<&str>, limit: i64) -> rusqlite::Result<Vec<Hit>> {
    let (expression, found) = match question {
        Question::Nothing => return Ok(Vec::new()),
        Question::Everything => (None, EVERYTHING),
        Question::AllBut(expression) => (Some(expression), ALL_BUT),
        Question::Matching(expression) if keys.is_none() => (Some(expression), MATCHING),
        Question::Matching(expression) => (Some(expression), MATCHING_WITHIN),
    };
    // Scores are sorted first and only the best documents are read then. Ties stand in the order in which the documents came.
    let mut statement = transaction.prepare_cached(&format!(
        "WITH found AS MATERIALIZED ({found} ORDER BY score DESC, key LIMIT ?2)
        SELECT name, id, version, score, source FROM found JOIN documents USING (key) JOIN indices ON indices.key = index_key
        ORDER BY score DESC, documents.key"
    ))?;
    let mut rows = statement.query(params![expression, limit, keys])?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        hits.push(Hit {
            index: row.get(0)?,
            id: row.get(1)?,
            version: row.get(2)?,
            score: row.get(3)?,
            source: document(row.get(4)?)?,
            highlights: Vec::new(),
        });
    }
    Ok(hits)
}

fn document(source: String) -> rusqlite::Result<Box<RawValue>> {
    RawValue::from_string(source)
        .map_err(|cause| rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, Box::new(cause)))
}

/// Asks the same question again of a small table that keeps its text and holds only the hits. FTS5 itself then says what matched: cutting
/// and folding words a second time in our own code would differ from it in the corners.
fn highlight(transaction: &Transaction<'_>, expression: &str, hits: &mut [Hit]) -> rusqlite::Result<()> {
    transaction.execute_batch(&format!("CREATE VIRTUAL TABLE temp.shown USING fts5 (text, tokenize = '{TOKENIZER}')"))?;
    let mut insert = transaction.prepare("INSERT INTO temp.shown (rowid, text) VALUES (?1, ?2)")?;
    for (at, hit) in hits.iter().enumerate() {
        let mut text = String::new();
        // A document that was taken is a JSON object; of one that a stranger has changed as much is shown as can be read.
        let _ = searchable(&hit.id, hit.source.get().as_bytes(), &mut text);
        insert.execute(params![at, text])?;
    }
    let mut select = transaction.prepare("SELECT rowid, highlight(shown, 0, ?2, ?3) FROM temp.shown WHERE shown MATCH ?1")?;
    let mut rows = select.query(params![expression, OPEN.to_string(), CLOSE.to_string()])?;
    while let Some(row) = rows.next()? {
        let marked = row.get_ref(1)?.as_str()?;
        if let Some(hit) = hits.get_mut(row.get::<_, usize>(0)?) {
            // The first part is the id, which every hit shows anyway.
            hit.highlights = marked.split(BETWEEN).skip(1).filter(|value| value.contains(OPEN)).take(FRAGMENTS).map(fragment).collect();
        }
    }
    Ok(())
}

/// A value, or of a long one the part around its first match, cut between words where that is possible.
fn fragment(marked: &str) -> String {
    let marked = marked.trim().replace(ZERO_WIDTH, "");
    let (before, from) = marked.split_at(marked.find(OPEN).unwrap_or(0));
    let mut fragment = String::new();
    match before.char_indices().rev().nth(BEFORE - 1) {
        Some((start, _)) if start > 0 => {
            let kept = &before[start..];
            fragment.push('…');
            fragment.push_str(kept.split_once(' ').map_or(kept, |(_, whole)| whole));
        }
        _ => fragment.push_str(before),
    }
    let mut inside = false;
    let mut rest = from.chars();
    for character in rest.by_ref().take(FROM) {
        match character {
            OPEN => inside = true,
            CLOSE => inside = false,
            _ => {}
        }
        fragment.push(character);
    }
    if inside {
        fragment.push(CLOSE);
    }
    if !matches!(rest.next(), None | Some(CLOSE)) || rest.next().is_some() {
        fragment.push('…');
    }
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_value_is_shown_whole() {
        assert_eq!(fragment(" the \u{1}quick\u{2} brown fox "), "the \u{1}quick\u{2} brown fox");
    }

    #[test]
    fn a_long_value_is_cut_around_its_first_match() {
        let long = format!("{}needle \u{1}found\u{2}{}", "straw ".repeat(100), " hay".repeat(100));
        let shown = fragment(&long);
        assert!(shown.starts_with("…straw ") && shown.contains(" needle \u{1}found\u{2} hay ") && shown.ends_with('…'), "{shown}");
        assert!(shown.chars().count() <= 1 + BEFORE + FROM + 1, "{shown}");
    }

    #[test]
    fn a_mark_is_always_closed() {
        let shown = fragment(&format!("\u{1}{}\u{2} end", "é".repeat(500)));
        assert_eq!(shown, format!("\u{1}{}\u{2}…", "é".repeat(FROM - 1)));
        assert_eq!(fragment(&format!("\u{1}{}\u{2}", "é".repeat(FROM - 1))), format!("\u{1}{}\u{2}", "é".repeat(FROM - 1)));
    }
}
