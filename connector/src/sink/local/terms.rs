//! What a person types, as an FTS5 expression.
//!
//! Words must all occur; `"a phrase"` and a word that is cut into several (a date, an e-mail address, an amount) must occur together;
//! `word*` is the beginning of a word; `-word` must not occur; `a OR b` is either, closer than the words around it. Never FTS5 syntax and
//! never an error: everything typed ends inside quotes.

use super::text;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing that could be searched for.
    Nothing,
    /// Every document.
    Everything,
    /// The documents that match the FTS5 expression.
    Matching(String),
    /// The documents that do not.
    AllBut(String),
}

struct Term<'a> {
    words: &'a str,
    prefix: bool,
    without: bool,
    quoted: bool,
}

impl Term<'_> {
    fn is(&self, operator: &str) -> bool {
        self.words == operator && !(self.prefix || self.without || self.quoted)
    }

    fn is_operator(&self) -> bool {
        ["OR", "AND", "NOT"].into_iter().any(|operator| self.is(operator))
    }

    /// The term as an FTS5 string, which is cut into words as documents are; `None` when no word is in it, which FTS5 would take for one
    /// that never occurs.
    fn expression(&self) -> Option<String> {
        if !self.words.chars().any(|character| character.is_alphanumeric() || ('\u{e001}'..='\u{f8ff}').contains(&character)) {
            return None;
        }
        let mut expression = String::from("\"");
        // No quote can be in it: a quote ends a word and a phrase.
        text::push(&mut expression, self.words);
        expression.push('"');
        if self.prefix {
            expression.push('*');
        }
        Some(expression)
    }
}

/// Understands any text.
pub(super) fn parse(typed: &str) -> Question {
    let terms = split(typed);
    let all = terms.iter().any(|term| term.words.is_empty() && term.prefix && !term.quoted);
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut without = Vec::new();
    let (mut either, mut not) = (false, false);
    for (at, term) in terms.iter().enumerate() {
        // OR and AND stand between two terms and NOT before one; anywhere else they are words, as in `Portland OR`.
        let before = at > 0 && !(either || not);
        let after = terms.get(at + 1).is_some_and(|next| next.is("NOT") && at + 2 < terms.len() || !next.is_operator());
        match term.words {
            "OR" if term.is_operator() && before && after => either = true,
            "AND" if term.is_operator() && before && after => {}
            "NOT" if term.is_operator() && !not && after => not = true,
            _ => {
                let expression = term.expression();
                if term.without || not {
                    without.extend(expression);
                } else if let (true, Some(group)) = (either, groups.last_mut()) {
                    group.extend(expression);
                } else {
                    groups.push(expression.into_iter().collect());
                }
                (either, not) = (false, false);
            }
        }
    }
    groups.retain(|group| !group.is_empty());
    let wanted = groups.iter().map(|group| format!("({})", group.join(" OR "))).collect::<Vec<_>>().join(" AND ");
    let unwanted = without.join(" OR ");
    match (wanted.is_empty(), unwanted.is_empty()) {
        (true, true) if all => Question::Everything,
        (true, true) => Question::Nothing,
        (true, false) => Question::AllBut(unwanted),
        (false, true) => Question::Matching(wanted),
        (false, false) => Question::Matching(format!("({wanted}) NOT ({unwanted})")),
    }
}

/// Cuts the text into terms at spaces and quotes. A quote that is never closed reaches to the end.
fn split(typed: &str) -> Vec<Term<'_>> {
    let gap = |character: char| character.is_whitespace() || character.is_control() || character == text::BETWEEN;
    let mut terms = Vec::new();
    let mut rest = typed.trim_start_matches(gap);
    while !rest.is_empty() {
        let bare = rest.trim_start_matches('-');
        let without = bare.len() < rest.len();
        if let Some(phrase) = bare.strip_prefix('"') {
            let (words, behind) = phrase.split_once('"').unwrap_or((phrase, ""));
            let behind_stars = behind.trim_start_matches('*');
            terms.push(Term { words, prefix: behind_stars.len() < behind.len(), without, quoted: true });
            rest = behind_stars;
        } else {
            let end = bare.find(|character| gap(character) || character == '"').unwrap_or(bare.len());
            let words = bare[..end].trim_end_matches('*');
            terms.push(Term { words, prefix: words.len() < end, without, quoted: false });
            rest = &bare[end..];
        }
        rest = rest.trim_start_matches(gap);
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(typed: &str) -> String {
        match parse(typed) {
            Question::Matching(expression) => expression,
            other => panic!("{typed}: {other:?}"),
        }
    }

    #[test]
    fn words_are_all_wanted() {
        assert_eq!(matching("  raul\tlewis "), r#"("raul") AND ("lewis")"#);
        assert_eq!(matching("raul AND lewis"), r#"("raul") AND ("lewis")"#);
    }

    #[test]
    fn phrases_prefixes_and_terms_of_several_words_stay_together() {
        assert_eq!(matching(r#""Raul Lewis" 2017-08* "Main Str"*"#), r#"("Raul Lewis") AND ("2017-08"*) AND ("Main Str"*)"#);
        assert_eq!(matching(r#""never closed"#), r#"("never closed")"#);
    }

    #[test]
    fn a_minus_or_not_excludes() {
        assert_eq!(matching(r#"tesla -"model s" NOT red"#), r#"(("tesla")) NOT ("model s" OR "red")"#);
        assert_eq!(parse("-tesla"), Question::AllBut("\"tesla\"".to_owned()));
        assert_eq!(matching("tesla AND NOT red"), r#"(("tesla")) NOT ("red")"#);
    }

    #[test]
    fn or_binds_closer_than_and() {
        assert_eq!(matching("tesla OR audi OR bmw 2011"), r#"("tesla" OR "audi" OR "bmw") AND ("2011")"#);
        assert_eq!(matching("red tesla OR audi"), r#"("red") AND ("tesla" OR "audi")"#);
    }

    #[test]
    fn operators_that_stand_nowhere_are_words() {
        assert_eq!(matching("OR"), r#"("OR")"#);
        assert_eq!(matching("Portland OR"), r#"("Portland") AND ("OR")"#);
        assert_eq!(matching("OR Portland"), r#"("OR") AND ("Portland")"#);
        assert_eq!(matching(r#"a "OR" b"#), r#"("a") AND ("OR") AND ("b")"#);
        assert_eq!(matching("a NOT"), r#"("a") AND ("NOT")"#);
        assert_eq!(matching("a or b"), r#"("a") AND ("or") AND ("b")"#);
    }

    #[test]
    fn what_has_no_letter_and_no_digit_is_left_out() {
        assert_eq!(matching("a & b -- @ \"\" \"+\" c"), r#"("a") AND ("b") AND ("c")"#);
        assert_eq!(matching("a OR ???"), r#"("a")"#);
        assert_eq!(parse("  \"\" --- '"), Question::Nothing);
        assert_eq!(parse(""), Question::Nothing);
        assert_eq!(parse("-*"), Question::Everything);
        assert_eq!(parse(" * "), Question::Everything);
        assert_eq!(matching("* a"), r#"("a")"#);
    }

    #[test]
    fn control_characters_never_reach_the_expression() {
        assert_eq!(matching("a\0b \"c\0d\""), r#"("a") AND ("b") AND ("c d")"#);
    }
}
