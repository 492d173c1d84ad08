//! SELECT … FROM … WHERE … LIMIT … to what it consists of.
//!
//! The clauses are read here, and the expressions in them by [`sql`](crate::plan::sql).

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token};

use super::refused::{behind, refuse};
use crate::plan::sql::grammar::Expressions;
use crate::plan::sql::problem::Problem;
use crate::plan::sql::tokens::tokens;

/// A statement, its expressions as the parser has them.
#[derive(Debug)]
pub(super) struct Statement {
    /// The columns of the result.
    pub(super) items: Vec<Item>,
    /// The table; `None` for `stream`.
    pub(super) table: Option<String>,
    /// Another name of the table.
    pub(super) alias: Option<String>,
    pub(super) condition: Option<Expr>,
    pub(super) limit: Option<u64>,
}

/// One column of the result, or all of them.
#[derive(Debug)]
pub(super) enum Item {
    /// `*`
    All,
    /// An expression, and its name: the one behind AS, or else its text.
    One { expression: Box<Expr>, alias: Option<String>, text: String },
}

/// Columns that a query may have.
const MAX_COLUMNS: usize = 500;

/// The name of what has the rows of every table.
const STREAM: &str = "stream";

/// Words that go on with a query, and so are no other name of what stands before them.
const NEXT: [&str; 22] = [
    "FROM",
    "INTO",
    "WHERE",
    "LIMIT",
    "EMIT",
    "GROUP",
    "ORDER",
    "PARTITION",
    "HAVING",
    "WINDOW",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "NATURAL",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "OFFSET",
    "FETCH",
];

/// Words that are no name behind AS either: with them the name was forgotten.
const NEXT_CLAUSE: [&str; 3] = ["FROM", "WHERE", "LIMIT"];

/// Reads a statement.
///
/// # Errors
/// Anything else.
pub(super) fn read(text: &str) -> Result<Statement, Problem> {
    let grammar = Expressions { in_query: true };
    let tokens = tokens(&grammar, text)?;
    refuse(&tokens)?;
    let mut parser = grammar.parser(tokens);
    parser.expect_keyword_is(Keyword::SELECT)?;
    let mut items = Vec::new();
    loop {
        items.push(item(&mut parser, text)?);
        if items.len() > MAX_COLUMNS {
            return Err(Problem::new(format!("expected at most {MAX_COLUMNS} columns, found more")));
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if !parser.parse_keyword(Keyword::FROM) {
        return Err(behind(parser.peek_token_ref(), "a comma or FROM and a table, or FROM stream for every table"));
    }
    let table = table(&mut parser)?;
    let alias = alias(&mut parser)?;
    let condition = match parser.parse_keyword(Keyword::WHERE) {
        true => Some(parser.parse_expr()?),
        false => None,
    };
    let limit = match parser.parse_keyword(Keyword::LIMIT) {
        true => Some(limit(&mut parser)?),
        false => None,
    };
    let next = parser.peek_token_ref();
    if next.token != Token::EOF {
        let expected = match (&condition, limit) {
            (_, Some(_)) => "the end of the query",
            (Some(_), None) => "AND, OR, LIMIT or the end of the query",
            (None, None) => "WHERE, LIMIT or the end of the query",
        };
        let problem = behind(next, expected);
        let ends_a_name = condition.is_none() && limit.is_none() && matches!(next.token, Token::Minus | Token::Div | Token::Number(..));
        return Err(if ends_a_name {
            problem.help("a name of a table with other signs stands in double quotes, such as \"my-shop.item\"")
        } else {
            problem
        });
    }
    Ok(Statement { items, table, alias, condition, limit })
}

fn item(parser: &mut Parser<'_>, text: &str) -> Result<Item, Problem> {
    if parser.consume_token(&Token::Mul) {
        return Ok(Item::All);
    }
    let first = parser.peek_token_ref();
    let begin = first.span.start;
    if matches!(first.token, Token::Word(_))
        && parser.peek_nth_token_ref(1).token == Token::Period
        && parser.peek_nth_token_ref(2).token == Token::Mul
    {
        let what = format!("expected the name of a field behind {}, found *", first.token);
        return Err(Problem::at(what, parser.peek_nth_token_ref(2).span.start)
            .help("SELECT data gives the whole document, and SELECT * every column of the row; which fields documents have is not known beforehand"));
    }
    let expression = parser.parse_expr()?;
    let end = parser.get_current_token().span.end;
    let alias = alias(parser)?;
    Ok(Item::One { expression: Box::new(expression), alias, text: excerpt(text, begin, end) })
}

/// The name behind AS, or without it.
fn alias(parser: &mut Parser<'_>) -> Result<Option<String>, Problem> {
    let is_said = parser.parse_keyword(Keyword::AS);
    let next = parser.peek_token_ref();
    let name = match &next.token {
        Token::Word(word) if !word.value.is_empty() => {
            let ends = if is_said { &NEXT_CLAUSE[..] } else { &NEXT[..] };
            let is_name = word.quote_style.is_some() || !ends.iter().any(|next| word.value.eq_ignore_ascii_case(next));
            is_name.then(|| word.value.clone())
        }
        _ => None,
    };
    if is_said && name.is_none() {
        return Err(behind(next, "a name behind AS"));
    }
    if name.is_some() {
        parser.advance_token();
    }
    Ok(name)
}

/// The name of a table, with its dots.
fn table(parser: &mut Parser<'_>) -> Result<Option<String>, Problem> {
    const EXPECTED: &str = "the name of a table, or stream for every table";
    let mut names = Vec::new();
    let mut is_quoted = false;
    loop {
        let next = parser.peek_token_ref();
        match &next.token {
            Token::Word(word)
                if !word.value.is_empty()
                    && (word.quote_style.is_some() || !NEXT_CLAUSE[1..].iter().any(|next| word.value.eq_ignore_ascii_case(next))) =>
            {
                is_quoted |= word.quote_style.is_some();
                names.push(word.value.clone());
            }
            Token::SingleQuotedString(_) => {
                let problem = Problem::at(format!("expected {EXPECTED}, found a text"), next.span.start);
                return Err(problem.help("the name of a table stands without quotes, or in double quotes"));
            }
            Token::LParen => {
                let problem = Problem::at(format!("expected {EXPECTED}, found ("), next.span.start);
                return Err(problem.help("a query reads one stream, and no other query"));
            }
            _ => return Err(behind(next, EXPECTED)),
        }
        parser.advance_token();
        if !parser.consume_token(&Token::Period) {
            break;
        }
    }
    let is_stream = names.len() == 1 && !is_quoted && names[0].eq_ignore_ascii_case(STREAM);
    Ok((!is_stream).then(|| names.join(".")))
}

fn limit(parser: &mut Parser<'_>) -> Result<u64, Problem> {
    let token = parser.next_token();
    let limit = match &token.token {
        Token::Number(digits, _) => digits.parse().ok(),
        _ => None,
    };
    limit.ok_or_else(|| match &token.token {
        Token::EOF => Problem::at_end("expected a whole number behind LIMIT, found the end"),
        other => Problem::at(format!("expected a whole number behind LIMIT, found {other}"), token.span.start),
    })
}

/// The text between two places, on one line.
fn excerpt(text: &str, begin: Location, end: Location) -> String {
    let (begin, end) = (offset(text, begin), offset(text, end));
    text.get(begin..end.max(begin)).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many bytes of a text stand before a place.
fn offset(text: &str, place: Location) -> usize {
    let index = |number: u64| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = match index(place.line) {
        0 => 0,
        lines => text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1),
    };
    text[line..].char_indices().nth(index(place.column)).map_or(text.len(), |(at, _)| line + at)
}
