//! What SQL has and a pull query has not: each with the reason, and with what to do instead.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::plan::sql::functions::is_of_many_rows;
use crate::plan::sql::problem::Problem;
use crate::plan::sql::tokens::is_word;

/// Words that begin something that is not there: what it is called, why, and what to do instead.
const CLAUSES: [(&[&str], &str, &str, &str); 16] = [
    (
        &["EMIT"],
        "EMIT CHANGES",
        "a pull query ends by itself, at the ends that the stream had when it was asked",
        "leave it out; revsync run is the one that follows a stream",
    ),
    (&["GROUP", "BY"], "GROUP BY", ONE_BY_ONE, GROUP_ELSEWHERE),
    (
        &["ORDER", "BY"],
        "ORDER BY",
        "rows are printed as they are found, and a stream has no other order",
        "sort what is printed: revsync query … --csv | sort",
    ),
    (&["PARTITION", "BY"], "PARTITION BY", ONE_BY_ONE, GROUP_ELSEWHERE),
    (&["HAVING"], "HAVING", "it is a condition on groups, and there are none", "put conditions on rows behind WHERE"),
    (&["WINDOW", "TUMBLING"], WINDOW, ONE_BY_ONE, WINDOW_INSTEAD),
    (&["WINDOW", "HOPPING"], WINDOW, ONE_BY_ONE, WINDOW_INSTEAD),
    (&["WINDOW", "SESSION"], WINDOW, ONE_BY_ONE, WINDOW_INSTEAD),
    (&["OVER"], "OVER", ONE_BY_ONE, WINDOW_INSTEAD),
    (&["JOIN"], "JOIN", ONE_STREAM, JOIN_INSTEAD),
    (&["UNION"], "UNION", ONE_STREAM, ASK_TWICE),
    (&["INTERSECT"], "INTERSECT", ONE_STREAM, ASK_TWICE),
    (&["EXCEPT"], "EXCEPT", ONE_STREAM, ASK_TWICE),
    (
        &["OFFSET"],
        "OFFSET",
        "a query reads the stream from its beginning",
        "skip rows of what is printed: revsync query … --csv | tail -n +10, or ask for a range of ROWOFFSET or ROWTIME",
    ),
    (&["FETCH"], "FETCH", "LIMIT says how many rows are wanted", "write LIMIT 10"),
    (
        &["INTO"],
        "INTO",
        "a query prints its rows and writes nothing",
        "send what is printed where it is to go, or bring it into an index with revsync sync and a rule",
    ),
];

const ONE_BY_ONE: &str = "rows come one after another and nothing is kept of them";
const GROUP_ELSEWHERE: &str = "group what is printed, as with revsync query … --json | jq -s 'group_by(.State) | map(length)'";
const WINDOW: &str = "WINDOW";
const WINDOW_INSTEAD: &str = "ask for a time with WHERE ROWTIME BETWEEN … AND …, or group what is printed";
const ONE_STREAM: &str = "a query reads one stream, once";
const JOIN_INSTEAD: &str =
    "select FROM stream, which has the rows of every table, or bring the tables into an index with revsync sync and search there";
const ASK_TWICE: &str = "ask two queries, and put together what they print";

/// Refuses what a pull query has not, wherever it stands; EMIT before all else.
///
/// # Errors
/// What was found, why it is not there, and what to do instead.
pub(super) fn refuse(tokens: &[TokenWithSpan]) -> Result<(), Problem> {
    let is_name = |at: usize| at > 0 && tokens[at - 1].token == Token::Period;
    let reads = |at: usize, words: &[&str]| {
        !is_name(at) && words.iter().enumerate().all(|(more, word)| tokens.get(at + more).is_some_and(|token| is_word(&token.token, word)))
    };
    let next = |at: usize| tokens.get(at + 1).map(|token| &token.token);
    if let Some(at) = (0..tokens.len())
        .find(|at| reads(*at, &["EMIT"]) && next(*at).is_some_and(|next| is_word(next, "CHANGES") || is_word(next, "FINAL")))
    {
        return Err(refused(&["EMIT"], tokens[at].span.start));
    }
    statement(tokens)?;
    for (at, token) in tokens.iter().enumerate() {
        let place = token.span.start;
        let opens = next(at) == Some(&Token::LParen);
        match &token.token {
            Token::Word(word) if opens && word.quote_style.is_none() && !is_name(at) && is_of_many_rows(&word.value) => {
                let what = format!("expected no {}, found it", word.value.to_uppercase());
                let count = format!("{ONE_BY_ONE}; count or add up what is printed, as with revsync query … --json | jq -s length");
                return Err(Problem::at(what, place).help(count));
            }
            Token::Word(_) if opens && reads(at, &["OVER"]) => return Err(refused(&["OVER"], place)),
            Token::Word(_) if at > 0 && reads(at, &["SELECT"]) => {
                let what = "expected no SELECT inside of another, found one";
                return Err(
                    Problem::at(what, place).help("a query reads one stream, once; ask for its values first, and name them with IN (…)")
                );
            }
            Token::Word(_) if reads(at, &["DISTINCT"]) && at == 1 => {
                let what = "expected no DISTINCT, found it";
                return Err(Problem::at(what, place)
                    .help(format!("{ONE_BY_ONE}; leave out what comes twice of what is printed: revsync query … --csv | sort -u")));
            }
            Token::Word(_) => {
                let two = CLAUSES.iter().find(|(words, ..)| words.len() == 2 && reads(at, words));
                if let Some((words, ..)) = two {
                    return Err(refused(words, place));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a text begins with that is no SELECT.
fn statement(tokens: &[TokenWithSpan]) -> Result<(), Problem> {
    let Some(TokenWithSpan { token, span }) = tokens.first() else { return Err(Problem::at_end("expected SELECT, found the end")) };
    if is_word(token, "SELECT") {
        return Ok(());
    }
    let found = match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        other => other.to_string(),
    };
    let problem = Problem::at(format!("expected SELECT, the one statement that a stream answers, found {found}"), span.start);
    Err(match found.as_str() {
        "WITH" => problem.help("write the query by itself: one that reads another is not there"),
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" => problem.help("a query changes nothing; revsync sync and run write to an index"),
        "CREATE" | "DROP" | "ALTER" | "SHOW" | "DESCRIBE" | "LIST" | "EXPLAIN" => problem.help(
            "nothing has to be declared: name the stream as SOURCE and its tables behind FROM; revsync explain SOURCE lists what is in it",
        ),
        _ => problem,
    })
}

/// Something behind the last clause that was understood.
pub(super) fn behind(token: &TokenWithSpan, expected: &str) -> Problem {
    let place = token.span.start;
    let begins = |words: &[&str]| is_word(&token.token, words[0]);
    if let Some((words, ..)) = CLAUSES.iter().find(|(words, ..)| begins(words)) {
        return refused(words, place);
    }
    let joins = ["INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"];
    if token.token == Token::Comma || joins.iter().any(|word| is_word(&token.token, word)) {
        return refused(&["JOIN"], place);
    }
    match &token.token {
        Token::EOF => Problem::at_end(format!("expected {expected}, found the end")),
        other => Problem::at(format!("expected {expected}, found {other}"), place),
    }
}

fn refused(words: &[&str], place: Location) -> Problem {
    match CLAUSES.iter().find(|(known, ..)| *known == words) {
        Some((_, name, why, instead)) => Problem::at(format!("expected no {name}, found it"), place).help(format!("{why}; {instead}")),
        None => Problem::at(format!("expected no {}, found it", words.join(" ")), place),
    }
}
