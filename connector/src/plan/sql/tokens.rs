//! Text to words and signs, and what of them no expression of ours has.
//!
//! Writes what the parser does not know, or reads by trying things out, in words that it reads at once: IN becomes an operator of its own, and
//! MISSING a test that we have no other use for. Limits the length of a text: a chain of operators is as deep in the parser's tree as it is long,
//! and that tree is freed by recursion.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

use super::grammar::Expressions;
use super::problem::Problem;

/// Words and signs that a text may have, without values and commas.
const MAX_WORDS: usize = 5_000;

/// The operator that stands for IN.
pub(super) const IN: &str = "IN";

/// The operator that stands for NOT IN.
pub(super) const NOT_IN: &str = "NOT IN";

/// Reads a text. White space and comments are left out, and of a query the semicolons at its end.
///
/// # Errors
/// Signs that nothing here has, open quotes, IS with something behind it that it cannot test, and texts of more than 5,000 words.
pub(in crate::plan) fn tokens(grammar: &Expressions, text: &str) -> Result<Vec<TokenWithSpan>, Problem> {
    let tokens = Tokenizer::new(grammar, text).tokenize_with_location().map_err(|error| match error.message.as_str() {
        what if what.starts_with("Unterminated string") => unclosed('\'', error.location),
        what if what.starts_with("Expected close delimiter") => unclosed('"', error.location),
        what => Problem::at(format!("expected words, names and values, found other text ({what})"), error.location),
    })?;
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut words = 0;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::EOF | Token::Comma | Token::SemiColon | Token::Number(_, false) | Token::SingleQuotedString(_) => {}
            Token::Word(_) | Token::Period | Token::LParen | Token::RParen | Token::LBracket | Token::RBracket => words += 1,
            Token::Minus | Token::Plus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => words += 1,
            Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => words += 1,
            other => {
                let what = match other {
                    Token::Placeholder(_) | Token::Question | Token::Colon | Token::AtSign => " (a parameter)",
                    _ => "",
                };
                let problem = Problem::at(format!("expected words, names and values, found {other}{what}"), token.span.start);
                return Err(match instead(other) {
                    Some(help) => problem.help(help),
                    None => problem,
                });
            }
        }
        if let (Token::Word(word), Some(TokenWithSpan { token: Token::Number(digits, _), span })) = (&token.token, kept.last())
            && span.end == token.span.start
        {
            return Err(Problem::at(format!("expected a number, found {digits}{word}"), span.start)
                .help("write digits without separators, as in 1000000 or 1e6, and a space between a number and a word"));
        }
        kept.push(token);
    }
    while grammar.in_query && kept.last().is_some_and(|last| last.token == Token::SemiColon) {
        kept.pop();
    }
    if let Some(end) = kept.iter().find(|token| token.token == Token::SemiColon) {
        return Err(Problem::at("expected words, names and values, found ; (the end of a statement)", end.span.start));
    }
    if words > MAX_WORDS {
        return Err(Problem::new(format!("expected at most {MAX_WORDS} words and signs beside values, found {words}")));
    }
    rewrite(kept)
}

/// What to write in place of a sign that other languages have, or names.
fn instead(sign: &Token) -> Option<&'static str> {
    Some(match sign.to_string().as_str() {
        ":" | "`" => "a name with other signs stands in double quotes, such as \"f:stock\"",
        "==" => "values are compared with =",
        "&&" => "conditions are put together with AND and OR",
        "~" | "~*" | "!~" => "a text is compared with a pattern by LIKE, where % stands for any characters and _ for one",
        _ => return None,
    })
}

fn unclosed(quote: char, start: Location) -> Problem {
    Problem::at(format!("expected another {quote} before the end, found none for the one"), start)
}

/// Whether a token is this word, not quoted.
pub(in crate::plan) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// IN, NOT IN and IS MISSING as the parser is to see them.
fn rewrite(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, Problem> {
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(mut token) = tokens.next() {
        let is_name = rewritten.last().is_some_and(|before| before.token == Token::Period);
        if !is_name && is_word(&token.token, "NOT") && tokens.peek().is_some_and(|next| is_word(&next.token, "IN")) {
            tokens.next();
            token.token = Token::CustomBinaryOperator(NOT_IN.to_owned());
        } else if !is_name && is_word(&token.token, "IN") {
            token.token = Token::CustomBinaryOperator(IN.to_owned());
        } else if let Token::Word(word) = &mut token.token
            && matches!(word.keyword, Keyword::ANY | Keyword::ALL | Keyword::SOME)
            && tokens.peek().is_none_or(|next| next.token != Token::LParen)
        {
            // Behind a comparison the parser takes these words for the beginning of ANY (…), whatever follows.
            word.keyword = Keyword::NoKeyword;
        } else if !is_name && is_word(&token.token, "IS") {
            rewritten.push(token);
            if let Some(not) = tokens.next_if(|next| is_word(&next.token, "NOT")) {
                rewritten.push(not);
            }
            let Some(mut test) = tokens.next() else { continue };
            match ["NULL", "TRUE", "FALSE", "UNKNOWN", "MISSING"].into_iter().find(|word| is_word(&test.token, word)) {
                Some("MISSING") => {
                    let word = Word { value: "MISSING".to_owned(), quote_style: None, keyword: Keyword::NORMALIZED };
                    test.token = Token::Word(word);
                }
                Some(_) => {}
                None if test.token == Token::EOF => return Err(Problem::at_end("expected NULL or MISSING behind IS, found the end")),
                None => {
                    let what =
                        format!("expected NULL, MISSING, TRUE, FALSE or UNKNOWN behind IS, or NOT and one of them, found {}", test.token);
                    return Err(Problem::at(what, test.span.start));
                }
            }
            token = test;
        }
        rewritten.push(token);
    }
    Ok(rewritten)
}
