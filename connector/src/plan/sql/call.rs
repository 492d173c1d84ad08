//! Calls as SQL writes them, each to a name and its arguments.
//!
//! Only the form: which functions there are, and what they take, is known to `functions.rs`.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Value as Literal,
};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::grammar::Expressions;
use super::tokens::{IN, is_word};

/// A call in the parser's tree.
pub(super) fn node(name: Ident, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A name and the arguments of a call, back from the parser's tree.
pub(super) fn parts(call: Function) -> Option<(Ident, Vec<Expr>)> {
    let Function { name: ObjectName(mut names), args: FunctionArguments::List(list), .. } = call else { return None };
    let Some(ObjectNamePart::Identifier(name)) = names.pop() else { return None };
    let arg = |arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    };
    Some((name, list.args.into_iter().map(arg).collect::<Option<_>>()?))
}

/// The count and the unit of INTERVAL '…' UNIT, in the parser's tree. Looks at nothing below them, and copies nothing.
pub(super) fn interval(call: &Function) -> Option<(&Expr, &Expr)> {
    let [ObjectNamePart::Identifier(name)] = &call.name.0[..] else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(count)), FunctionArg::Unnamed(FunctionArgExpr::Expr(unit))] = &list.args[..] else {
        return None;
    };
    (name.quote_style.is_none() && name.value.eq_ignore_ascii_case("INTERVAL")).then_some((count, unit))
}

/// A word as an argument, in capitals.
fn word(token: &TokenWithSpan) -> Expr {
    let text = token.token.to_string().to_uppercase();
    Expr::Value(Literal::SingleQuotedString(text).with_span(token.span))
}

/// TIMESTAMP '…', DATE '…' or INTERVAL '…' UNIT, behind the word.
pub(super) fn literal(parser: &mut Parser<'_>, name: Ident) -> Result<Expr, ParserError> {
    let mut args = vec![parser.parse_prefix()?];
    if name.value.eq_ignore_ascii_case("INTERVAL") {
        let unit = parser.next_token();
        match unit.token {
            Token::Word(_) => args.push(word(&unit)),
            _ => return parser.expected("a unit such as HOUR or DAY", unit),
        }
    }
    Ok(node(name, args))
}

/// A call, behind the name and before the opening parenthesis.
pub(super) fn function(dialect: Expressions, parser: &mut Parser<'_>, mut name: Ident) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let known = if name.quote_style.is_none() { name.value.to_uppercase() } else { String::new() };
    let args = match known.as_str() {
        "CAST" => cast(parser)?,
        "EXTRACT" => {
            let part = parser.next_token();
            if !matches!(part.token, Token::Word(_)) {
                return parser.expected("a part of a time such as YEAR", part);
            }
            parser.expect_keyword_is(Keyword::FROM)?;
            vec![word(&part), parser.parse_expr()?]
        }
        "POSITION" => {
            let part = parser.parse_subexpr(dialect.prec_value(Precedence::Between))?;
            let next = parser.next_token();
            if next.token != Token::CustomBinaryOperator(IN.to_owned()) {
                return parser.expected("IN", next);
            }
            vec![parser.parse_expr()?, part]
        }
        "SUBSTRING" => substring(parser)?,
        "TRIM" => {
            let (trimmed, args) = trim(parser)?;
            name.value = trimmed.to_owned();
            args
        }
        _ if *parser.peek_token_ref() == Token::RParen => Vec::new(),
        _ => parser.parse_comma_separated(Parser::parse_expr)?,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(node(name, args))
}

/// `x AS TYPE`, with the numbers of the type as further arguments.
fn cast(parser: &mut Parser<'_>) -> Result<Vec<Expr>, ParserError> {
    let mut args = vec![parser.parse_expr()?];
    parser.expect_keyword_is(Keyword::AS)?;
    let name = parser.next_token();
    if !matches!(name.token, Token::Word(_)) {
        return parser.expected("a type", name);
    }
    args.push(word(&name));
    for more in ["PRECISION", "VARYING"] {
        if is_word(&parser.peek_token_ref().token, more) {
            parser.advance_token();
        }
    }
    if parser.consume_token(&Token::LParen) {
        args.extend(parser.parse_comma_separated(whole_number)?);
        parser.expect_token(&Token::RParen)?;
    }
    if parser.parse_one_of_keywords(&[Keyword::WITH, Keyword::WITHOUT]).is_some() {
        parser.expect_keywords(&[Keyword::TIME, Keyword::ZONE])?;
    }
    Ok(args)
}

fn whole_number(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    match &token.token {
        Token::Number(digits, _) => Ok(Expr::Value(Literal::Number(digits.clone(), false).with_span(token.span))),
        _ => parser.expected("a number", token),
    }
}

/// `x FROM 1 FOR 2`, or the three with commas between them.
fn substring(parser: &mut Parser<'_>) -> Result<Vec<Expr>, ParserError> {
    let mut args = vec![parser.parse_expr()?];
    if parser.parse_keyword(Keyword::FROM) {
        args.push(parser.parse_expr()?);
        if parser.parse_keyword(Keyword::FOR) {
            args.push(parser.parse_expr()?);
        }
        return Ok(args);
    }
    while parser.consume_token(&Token::Comma) {
        args.push(parser.parse_expr()?);
    }
    Ok(args)
}

/// `BOTH 'x' FROM y` and what of it can be left out, as the function that does it.
fn trim(parser: &mut Parser<'_>) -> Result<(&'static str, Vec<Expr>), ParserError> {
    let side = match parser.parse_one_of_keywords(&[Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING]) {
        Some(Keyword::LEADING) => "LTRIM",
        Some(Keyword::TRAILING) => "RTRIM",
        _ => "BTRIM",
    };
    if parser.parse_keyword(Keyword::FROM) {
        return Ok((side, vec![parser.parse_expr()?]));
    }
    let first = parser.parse_expr()?;
    if parser.parse_keyword(Keyword::FROM) {
        return Ok((side, vec![parser.parse_expr()?, first]));
    }
    if parser.consume_token(&Token::Comma) {
        return Ok((side, vec![first, parser.parse_expr()?]));
    }
    Ok((side, vec![first]))
}
