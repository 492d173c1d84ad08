//! SQL text to the parser's tree of a condition.
//!
//! Takes the grammar from `sqlparser`, through a dialect that knows conditions and little else, so that what a filter cannot do is refused
//! where it stands. Never takes more stack than a small thread has: nesting and length are limited.

use sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value as Literal};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// Words and signs that a text may have, without values and commas. A chain of comparisons is as deep in the parser's tree as it is long,
/// and that tree is freed by recursion.
const MAX_WORDS: usize = 5_000;

/// How deeply the parser may nest. Parentheses take one level or two; each takes some 40 KiB of stack where nothing is optimised.
const MAX_NESTING: usize = 24;

/// The word behind IS for a field that is not there; SQL has none.
pub(super) const MISSING: &str = "MISSING";

/// Reads the text of one condition. IS MISSING is the custom operator [`MISSING`] on its path.
///
/// # Errors
/// Anything that has not the form of a condition: what was expected, what was found, and where.
pub(super) fn expression(text: &str) -> Result<Expr, String> {
    let tokens = Tokenizer::new(&Conditions, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| match error.message.as_str() {
        what if what.starts_with("Unterminated string") => unclosed('\'', error.location),
        what if what.starts_with("Expected close delimiter") => unclosed('"', error.location),
        what => in_our_words(&format!("expected a condition, found other text: {what}{}", error.location)),
    })?;
    check(&tokens)?;
    let mut parser = Parser::new(&Conditions).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens);
    let parsed = parser.parse_expr().and_then(|expression| match parser.peek_token_ref() {
        end if *end == Token::EOF => Ok(expression),
        more => parser.expected_ref("AND, OR or the end", more),
    });
    parsed.map_err(|error| match error {
        ParserError::RecursionLimitExceeded => "expected a condition with fewer parentheses or NOTs inside each other".to_owned(),
        ParserError::ParserError(what) | ParserError::TokenizerError(what) => in_our_words(&what),
    })
}

fn unclosed(quote: char, start: Location) -> String {
    in_our_words(&format!("expected another {quote} for the one{start}, found the end"))
}

/// The parser's words as they are written everywhere else.
fn in_our_words(what: &str) -> String {
    let what = what.replacen("Expected: ", "expected ", 1).replace(", found: EOF", ", found the end").replacen(", found: ", ", found ", 1);
    what.replace(" at Line: ", " at line ").replace(", Column: ", ", column ")
}

/// Refuses what no condition has, and texts of a length that is no condition's.
fn check(tokens: &[TokenWithSpan]) -> Result<(), String> {
    let mut words = 0;
    for TokenWithSpan { token, span } in tokens {
        match token {
            Token::Whitespace(_) | Token::EOF | Token::Comma | Token::Number(_, false) | Token::SingleQuotedString(_) => {}
            Token::Word(_) | Token::Period | Token::LParen | Token::RParen | Token::Minus | Token::Plus => words += 1,
            Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => words += 1,
            other => {
                let what = match other {
                    Token::SemiColon => " (the end of a statement)",
                    Token::Placeholder(_) | Token::Question | Token::Colon | Token::AtSign => " (a parameter)",
                    Token::Div | Token::Mod | Token::StringConcat => " (arithmetic)",
                    _ => "",
                };
                return Err(in_our_words(&format!("expected a condition on fields, found {other}{what}{}", span.start)));
            }
        }
    }
    if words > MAX_WORDS {
        return Err(format!("expected a condition of at most {MAX_WORDS} words and signs beside its values, found {words}"));
    }
    Ok(())
}

/// SQL as far as conditions go.
#[derive(Debug)]
struct Conditions;

impl Dialect for Conditions {
    fn is_delimited_identifier_start(&self, c: char) -> bool {
        c == '"'
    }

    fn is_identifier_start(&self, c: char) -> bool {
        c.is_alphabetic() || c == '_'
    }

    fn is_identifier_part(&self, c: char) -> bool {
        c.is_alphanumeric() || c == '_'
    }

    /// A path, a value, a sign before a number, NOT, or a condition in parentheses; the parser's own list of what can stand here is longer, and
    /// it goes back and forth in it.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        Some(prefix(self, parser))
    }

    /// IN without subqueries, and IS with MISSING.
    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        let negated = is_word(parser.peek_token_ref(), "NOT");
        if is_word(parser.peek_nth_token_ref(usize::from(negated)), "IN") {
            return Some(list(parser, left, negated));
        }
        is_word(parser.peek_token_ref(), "IS").then(|| is(parser, left))
    }
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Words that cannot be the name of a field unless they are quoted.
fn is_reserved(keyword: Keyword) -> bool {
    use Keyword::{AND, BETWEEN, CASE, ESCAPE, IN, IS, LIKE, NOT, NULL, OR, SELECT, WHERE};
    matches!(keyword, AND | BETWEEN | CASE | ESCAPE | IN | IS | LIKE | NOT | NULL | OR | SELECT | WHERE)
}

fn prefix(dialect: &Conditions, parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    match &token.token {
        Token::LParen => {
            let inside = parser.parse_expr()?;
            parser.expect_token(&Token::RParen)?;
            Ok(Expr::Nested(Box::new(inside)))
        }
        Token::Minus | Token::Plus => {
            let op = if token == Token::Minus { UnaryOperator::Minus } else { UnaryOperator::Plus };
            Ok(Expr::UnaryOp { op, expr: Box::new(parser.parse_subexpr(dialect.prec_value(Precedence::MulDivModOp))?) })
        }
        Token::Number(digits, _) => Ok(Expr::Value(Literal::Number(digits.clone(), false).with_span(token.span))),
        Token::SingleQuotedString(text) => Ok(Expr::Value(Literal::SingleQuotedString(text.clone()).with_span(token.span))),
        Token::Word(word) => match word.keyword {
            Keyword::NOT => {
                let expr = Box::new(parser.parse_subexpr(dialect.prec_value(Precedence::UnaryNot))?);
                Ok(Expr::UnaryOp { op: UnaryOperator::Not, expr })
            }
            Keyword::TRUE => Ok(Expr::Value(Literal::Boolean(true).with_span(token.span))),
            Keyword::FALSE => Ok(Expr::Value(Literal::Boolean(false).with_span(token.span))),
            Keyword::NULL => Ok(Expr::Value(Literal::Null.with_span(token.span))),
            reserved if is_reserved(reserved) => parser.expected("a path or a value", token),
            _ if *parser.peek_token_ref() == Token::LParen => parser.expected("a path or a value", function(token)),
            _ => path(parser, word.clone().into_ident(token.span)),
        },
        _ => parser.expected("a path or a value", token),
    }
}

/// The name of a function, as a token that says so.
fn function(mut name: TokenWithSpan) -> TokenWithSpan {
    if let Token::Word(word) = &mut name.token {
        word.value = format!("the function {}", word.value);
        word.quote_style = None;
    }
    name
}

fn path(parser: &mut Parser<'_>, first: Ident) -> Result<Expr, ParserError> {
    let mut names = vec![first];
    while parser.consume_token(&Token::Period) {
        let token = parser.next_token();
        match token.token {
            Token::Word(word) => names.push(word.into_ident(token.span)),
            _ => return parser.expected("the name of a field", token),
        }
    }
    Ok(Expr::CompoundIdentifier(names))
}

fn list(parser: &mut Parser<'_>, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
    let expr = Box::new(tested(parser, left)?);
    (0..1 + usize::from(negated)).for_each(|_| parser.advance_token());
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(|parser| prefix(&Conditions, parser))?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InList { expr, list, negated })
}

fn is(parser: &mut Parser<'_>, left: &Expr) -> Result<Expr, ParserError> {
    let expr = Box::new(tested(parser, left)?);
    parser.advance_token();
    let negated = parser.parse_keyword(Keyword::NOT);
    let test = parser.next_token();
    let found = if is_word(&test, "NULL") {
        Expr::IsNull(expr)
    } else if is_word(&test, MISSING) {
        let right = Box::new(Expr::Value(Literal::Null.into()));
        Expr::BinaryOp { left: expr, op: BinaryOperator::Custom(MISSING.to_owned()), right }
    } else {
        return parser.expected("NULL, NOT NULL, MISSING or NOT MISSING", test);
    };
    Ok(if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) } } else { found })
}

/// The path before IN or IS, which comes next. Anything else could be a tree too deep to be copied.
fn tested(parser: &Parser<'_>, left: &Expr) -> Result<Expr, ParserError> {
    match left {
        Expr::CompoundIdentifier(_) => Ok(left.clone()),
        Expr::Nested(inside) if matches!(**inside, Expr::CompoundIdentifier(_)) => Ok((**inside).clone()),
        _ => {
            let next = parser.peek_token_ref();
            Err(ParserError::ParserError(format!("expected a path before {next}, found something else{}", next.span.start)))
        }
    }
}
