//! Words and signs to the parser's tree of an expression.
//!
//! Takes the grammar from `sqlparser`, through a dialect that knows expressions on documents and little else, so that what cannot be done is
//! refused where it stands. What has a syntax of its own (CAST, EXTRACT, TIMESTAMP '…') is a call in the tree, as of any other function. Never takes
//! more stack than a small thread has: nesting is limited, and nothing is read twice.

use sqlparser::ast::{AccessExpr, Expr, Ident, Subscript, UnaryOperator, Value as Literal};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::call;
use super::tokens::{IN, NOT_IN};

/// How deeply the parser may nest. Parentheses take one level; each takes some 40 KiB of stack where nothing is optimised.
const MAX_NESTING: usize = 24;

/// SQL as far as expressions on one document, or one row, go.
#[derive(Debug, Clone, Copy)]
pub(in crate::plan) struct Expressions {
    /// Whether the words that a query goes on with cannot be the names of fields.
    pub(in crate::plan) in_query: bool,
}

impl Expressions {
    /// A parser of these words and signs.
    pub(in crate::plan) fn parser(&self, tokens: Vec<TokenWithSpan>) -> Parser<'_> {
        Parser::new(self).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens)
    }

    /// Words that cannot be the name of a field unless they are quoted.
    fn reserves(self, keyword: Keyword) -> bool {
        use Keyword::{AND, BETWEEN, CASE, ESCAPE, FROM, IS, LIKE, LIMIT, NOT, NULL, OR, SELECT, WHERE};
        matches!(keyword, AND | BETWEEN | CASE | ESCAPE | IS | LIKE | NOT | NULL | OR | SELECT | WHERE)
            || self.in_query && matches!(keyword, FROM | LIMIT)
    }
}

impl Dialect for Expressions {
    fn is_delimited_identifier_start(&self, c: char) -> bool {
        c == '"'
    }

    fn is_identifier_start(&self, c: char) -> bool {
        c.is_alphabetic() || c == '_'
    }

    fn is_identifier_part(&self, c: char) -> bool {
        c.is_alphanumeric() || c == '_'
    }

    /// The parser's own list of what can stand here is longer, and it goes back and forth in it.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        Some(prefix(*self, parser))
    }

    /// IN binds as in SQL, though the parser sees an operator of its own; texts are joined after what is computed with numbers.
    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let as_what = match &parser.peek_token_ref().token {
            token if is_in(token) => Precedence::Between,
            Token::StringConcat => Precedence::Xor,
            _ => return None,
        };
        Some(Ok(self.prec_value(as_what)))
    }
}

fn is_in(token: &Token) -> bool {
    matches!(token, Token::CustomBinaryOperator(op) if op == IN || op == NOT_IN)
}

fn prefix(dialect: Expressions, parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    let text_is_next = |parser: &Parser<'_>| matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_));
    match &token.token {
        Token::LParen => {
            let mut inside = parser.parse_comma_separated(Parser::parse_expr)?;
            parser.expect_token(&Token::RParen)?;
            match inside.pop() {
                Some(only) if inside.is_empty() => Ok(Expr::Nested(Box::new(only))),
                last => Ok(Expr::Tuple(inside.into_iter().chain(last).collect())),
            }
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
            Keyword::CASE => parser.parse_case_expr(),
            reserved if dialect.reserves(reserved) => parser.expected("a path or a value", token),
            Keyword::TIMESTAMP | Keyword::DATE | Keyword::INTERVAL if text_is_next(parser) => {
                call::literal(parser, word.clone().into_ident(token.span))
            }
            Keyword::INTERVAL if matches!(parser.peek_token_ref().token, Token::Number(..)) => {
                let number = parser.next_token();
                parser.expected("a number in single quotes behind INTERVAL", number)
            }
            // Those that there are not, too, so that they are not taken for fields that no document has.
            Keyword::CURRENT_TIMESTAMP | Keyword::CURRENT_DATE | Keyword::CURRENT_TIME | Keyword::LOCALTIME | Keyword::LOCALTIMESTAMP
                if *parser.peek_token_ref() != Token::LParen =>
            {
                Ok(call::node(word.clone().into_ident(token.span), Vec::new()))
            }
            _ if *parser.peek_token_ref() == Token::LParen => call::function(dialect, parser, word.clone().into_ident(token.span)),
            _ => path(parser, word.clone().into_ident(token.span)),
        },
        _ => parser.expected("a path or a value", token),
    }
}

/// A path behind its first name: `.name` and `[0]`, as often as they come.
fn path(parser: &mut Parser<'_>, first: Ident) -> Result<Expr, ParserError> {
    let mut steps = Vec::new();
    loop {
        if parser.consume_token(&Token::Period) {
            let token = parser.next_token();
            match token.token {
                Token::Word(word) => steps.push(AccessExpr::Dot(Expr::Identifier(word.into_ident(token.span)))),
                _ => return parser.expected("the name of a field", token),
            }
        } else if parser.consume_token(&Token::LBracket) {
            let token = parser.next_token();
            let Token::Number(digits, _) = &token.token else { return parser.expected("the number of an element, from 0", token) };
            let index = Expr::Value(Literal::Number(digits.clone(), false).with_span(token.span));
            steps.push(AccessExpr::Subscript(Subscript::Index { index }));
            parser.expect_token(&Token::RBracket)?;
        } else {
            return Ok(Expr::CompoundFieldAccess { root: Box::new(Expr::Identifier(first)), access_chain: steps });
        }
    }
}
