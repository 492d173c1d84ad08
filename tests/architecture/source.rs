//! Reads Rust source just far enough to know which paths it names: comments, literals and test-only items are blanked, lines stay.
//!
//! Never expands a macro and never resolves a name that an earlier `use` brought in: that `use` is itself a path and is judged.

/// One path that a source names, such as `crate::plan::outcome` or `std::fs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathUse {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// A source without its comments, literals and test-only items.
pub(crate) struct Source {
    tokens: Vec<Token>,
    /// Lines outside of test-only items.
    pub(crate) lines: usize,
    /// Modules that exist only for tests and lie in files of their own.
    pub(crate) test_modules: Vec<String>,
    /// Where a test is switched off.
    pub(crate) ignored_tests: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word { line: usize, text: String },
    PathSeparator,
    Sign(char),
}

impl Source {
    pub(crate) fn read(text: &str) -> Self {
        let all = tokens(&blank(text));
        let ignored_tests = all.windows(3).filter_map(|window| match window {
            [Token::Sign('#'), Token::Sign('['), Token::Word { line, text }] if text == "ignore" => Some(*line),
            _ => None,
        });
        let ignored_tests = ignored_tests.collect();
        let (tokens, tests) = without_tests(&all);
        let test_lines: usize = tests.iter().map(|test| test.last_line - test.first_line + 1).sum();
        let lines = text.lines().count() - test_lines.min(text.lines().count());
        let test_modules = tests.into_iter().filter_map(|test| test.module).collect();
        Self { tokens, lines, test_modules, ignored_tests }
    }

    /// Every path of two names or more, every `use` written out, and the macros that are called (as `name!`).
    pub(crate) fn paths(&self) -> Vec<PathUse> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            at = match &self.tokens[at] {
                Token::Word { text, .. } if text == "use" => self.use_tree(at + 1, &[], &mut paths),
                Token::Word { .. } => self.plain_path(at, &mut paths),
                _ => at + 1,
            };
        }
        paths
    }

    fn plain_path(&self, start: usize, paths: &mut Vec<PathUse>) -> usize {
        let (segments, line, end) = self.segments(start);
        let calls_macro = self.tokens.get(end) == Some(&Token::Sign('!')) && self.tokens.get(end + 1) != Some(&Token::Sign('='));
        let method = start.checked_sub(1).is_some_and(|before| self.tokens[before] == Token::Sign('.'));
        if method {
            return start + 1;
        }
        if calls_macro {
            let mut segments = segments;
            if let Some(last) = segments.last_mut() {
                last.push('!');
            }
            paths.push(PathUse { line, segments });
        } else if segments.len() > 1 {
            paths.push(PathUse { line, segments });
        }
        end
    }

    /// The words from `start` on that are joined by `::`.
    fn segments(&self, start: usize) -> (Vec<String>, usize, usize) {
        let mut segments = Vec::new();
        let mut first = 0;
        let mut at = start;
        while let Some(Token::Word { line, text }) = self.tokens.get(at) {
            if segments.is_empty() {
                first = *line;
            }
            segments.push(text.clone());
            at += 1;
            match (self.tokens.get(at), self.tokens.get(at + 1)) {
                (Some(Token::PathSeparator), Some(Token::Word { .. })) => at += 1,
                _ => break,
            }
        }
        (segments, first, at)
    }

    /// One branch of a `use`, up to the `,`, `}` or `;` that ends it.
    fn use_tree(&self, start: usize, before: &[String], paths: &mut Vec<PathUse>) -> usize {
        let mut at = start;
        if self.tokens.get(at) == Some(&Token::PathSeparator) {
            at += 1;
        }
        let (segments, line, end) = self.segments(at);
        let mut path = before.to_vec();
        path.extend(segments);
        at = end;
        if self.tokens.get(at) == Some(&Token::PathSeparator) {
            at += 1;
        }
        match self.tokens.get(at) {
            Some(Token::Sign('{')) => {
                at += 1;
                while at < self.tokens.len() && self.tokens[at] != Token::Sign('}') {
                    let next = self.use_tree(at, &path, paths);
                    at = if self.tokens.get(next) == Some(&Token::Sign(',')) { next + 1 } else { next.max(at + 1) };
                }
                return at + 1;
            }
            Some(Token::Sign('*')) => {
                path.push("*".to_owned());
                paths.push(PathUse { line: if line == 0 { self.line_before(at) } else { line }, segments: path });
                at += 1;
            }
            _ => paths.push(PathUse { line, segments: path }),
        }
        while let Some(Token::Word { .. }) = self.tokens.get(at) {
            at += 1;
        }
        at
    }

    fn line_before(&self, at: usize) -> usize {
        self.tokens[..at].iter().rev().find_map(|token| if let Token::Word { line, .. } = token { Some(*line) } else { None }).unwrap_or(1)
    }
}

/// A test-only item.
struct TestItem {
    first_line: usize,
    last_line: usize,
    module: Option<String>,
}

/// Takes out every item under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<TestItem>) {
    let mut kept = Vec::new();
    let mut tests = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !starts_test_item(&tokens[at..]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = item_end(tokens, at);
        let words: Vec<(usize, &str)> = tokens[at..end]
            .iter()
            .filter_map(|token| if let Token::Word { line, text } = token { Some((*line, text.as_str())) } else { None })
            .collect();
        let ends_bare = tokens.get(end - 1) == Some(&Token::Sign(';'));
        let module = words.windows(2).find(|pair| pair[0].1 == "mod").filter(|_| ends_bare).map(|pair| pair[1].1.to_owned());
        let first_line = words.first().map_or(1, |word| word.0);
        let last_line = words.last().map_or(first_line, |word| word.0);
        // The closing brace of a block stands on a line of its own, which no word is on.
        tests.push(TestItem { first_line, last_line: if ends_bare { last_line } else { last_line + 1 }, module });
        at = end;
    }
    (kept, tests)
}

fn starts_test_item(tokens: &[Token]) -> bool {
    let word = |at: usize, expected: &str| matches!(tokens.get(at), Some(Token::Word { text, .. }) if text == expected);
    let sign = |at: usize, expected: char| tokens.get(at) == Some(&Token::Sign(expected));
    let cfg = sign(0, '#') && sign(1, '[') && word(2, "cfg") && sign(3, '(');
    cfg && ((word(4, "test") && sign(5, ')')) || (word(4, "all") && sign(5, '(') && word(6, "test")))
}

/// The end of the item that starts with an attribute: the first `;` outside of brackets, or the end of the first block.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']') => depth = depth.saturating_sub(1),
            Token::Sign('}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if first == '_' || first.is_alphanumeric() {
                let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                tokens.push(Token::Word { line: number + 1, text: rest[..end].to_owned() });
                rest = &rest[end..];
            } else if let Some(after) = rest.strip_prefix("::") {
                tokens.push(Token::PathSeparator);
                rest = after;
            } else {
                if !first.is_whitespace() {
                    tokens.push(Token::Sign(first));
                }
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    tokens
}

/// The text with every comment and every literal blanked, line by line the same.
fn blank(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = literal_or_comment(&characters, at);
        if end == at {
            out.push(characters[at]);
            at += 1;
            continue;
        }
        out.extend(characters[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// Where the comment or literal that starts here ends; `at` itself when none does.
fn literal_or_comment(text: &[char], at: usize) -> usize {
    let next = text.get(at + 1);
    let inside_word = at > 0 && (text[at - 1] == '_' || text[at - 1].is_alphanumeric());
    match text[at] {
        '/' if next == Some(&'/') => text[at..].iter().position(|c| *c == '\n').map_or(text.len(), |length| at + length),
        '/' if next == Some(&'*') => block_comment(text, at),
        '"' => quoted(text, at + 1),
        'b' | 'c' if !inside_word && next == Some(&'"') => quoted(text, at + 2),
        'b' if !inside_word && next == Some(&'\'') => character(text, at + 1),
        'r' if !inside_word => raw(text, at, at + 1),
        'b' | 'c' if !inside_word && next == Some(&'r') => raw(text, at, at + 2),
        '\'' => character(text, at),
        _ => at,
    }
}

fn block_comment(text: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn quoted(text: &[char], mut at: usize) -> usize {
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// A raw string whose hashes may begin at `hashes`; `start` itself when it is none (a raw identifier, a plain word).
fn raw(text: &[char], start: usize, hashes: usize) -> usize {
    let count = text[hashes.min(text.len())..].iter().take_while(|c| **c == '#').count();
    if text.get(hashes + count) != Some(&'"') {
        return start;
    }
    let mut at = hashes + count + 1;
    while at < text.len() {
        if text[at] == '"' && text[at + 1..].iter().take(count).filter(|c| **c == '#').count() == count {
            return at + 1 + count;
        }
        at += 1;
    }
    text.len()
}

/// A character literal; `start` itself for a lifetime.
fn character(text: &[char], start: usize) -> usize {
    match (text.get(start + 1), text.get(start + 2)) {
        (Some('\\'), _) => {
            let close = text[start + 3..].iter().position(|c| *c == '\'').unwrap_or(0);
            start + 3 + close + 1
        }
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::read(text).paths().into_iter().map(|path| format!("{} {}", path.line, path.segments.join("::"))).collect()
    }

    #[test]
    fn a_use_is_written_out() {
        assert_eq!(
            paths("use std::{fs, io::{self, Read as _}, time::*};\nuse crate::plan;"),
            ["1 std::fs", "1 std::io::self", "1 std::io::Read", "1 std::time::*", "2 crate::plan"]
        );
        assert_eq!(paths("use crate::{\n  sink::Sink,\n  source,\n};"), ["2 crate::sink::Sink", "3 crate::source"]);
        assert_eq!(paths("pub(crate) use super::x::Y as Z;"), ["1 super::x::Y"]);
        assert_eq!(paths("use ::tokio::time;"), ["1 tokio::time"]);
    }

    #[test]
    fn paths_inside_code_are_found() {
        assert_eq!(
            paths("fn f(x: crate::sink::Hit) -> Vec<u8> {\n  std::env::var(\"A\").ok();\n}"),
            ["1 crate::sink::Hit", "2 std::env::var"]
        );
        assert_eq!(paths("#[tokio::main]\nfn main() {}"), ["1 tokio::main"]);
        assert_eq!(paths("println!(\"x\"); tracing::info!(\"y\"); a != b;"), ["1 println!", "1 tracing::info!"]);
        assert_eq!(paths("x.fs::<u8>()"), [] as [&str; 0]);
    }

    #[test]
    fn comments_and_literals_name_nothing() {
        for text in [
            "// std::fs::read",
            "//! [`crate::sink`]",
            "/* std::fs /* nested std::env */ std::net */",
            r#"let a = "std::fs::read \" std::env";"#,
            r###"let a = r#"std::fs " std::env"#;"###,
            r#"let a = b"std::fs"; let c = br"std::net";"#,
            "let quote = '\"'; let other = '\\''; // std::fs",
        ] {
            assert_eq!(paths(text), [] as [&str; 0], "{text}");
        }
        assert_eq!(paths("fn f<'a>(x: &'a str) { std::fs::read(x) }"), ["1 std::fs::read"]);
        assert_eq!(paths("let c = '{'; std::fs::read(x)"), ["1 std::fs::read"]);
        assert_eq!(paths("let s = \"line\nline\";\nstd::fs::read(x)"), ["3 std::fs::read"]);
    }

    #[test]
    fn items_for_tests_only_are_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  use std::fs;\n  fn b() { if x { y } }\n}\nuse std::env;\n";
        assert_eq!(paths(text), ["7 std::env"]);
        assert_eq!(Source::read(text).lines, 2);
        assert_eq!(paths("#[cfg(all(test, unix))]\nuse std::fs;\nuse std::net::IpAddr;"), ["3 std::net::IpAddr"]);
        assert_eq!(paths("#[cfg(test)]\nconst A: [u8; 2] = [std::u8::MAX; 2];\nuse std::env;"), ["3 std::env"]);
        assert_eq!(paths("#[cfg(not(test))]\nuse std::fs;"), ["2 std::fs"]);
        assert_eq!(Source::read("#[cfg(test)]\nmod tests;\n").test_modules, ["tests"]);
        assert_eq!(Source::read("#[cfg(test)]\nmod tests {\n mod inner;\n}\n").test_modules, [] as [&str; 0]);
    }

    #[test]
    fn tests_that_are_switched_off_are_found() {
        assert_eq!(Source::read("#[cfg(test)]\nmod tests {\n  #[test]\n  #[ignore = \"slow\"]\n  fn a() {}\n}").ignored_tests, [4]);
        assert_eq!(Source::read("// #[ignore]\nlet a = \"#[ignore]\";").ignored_tests, [] as [usize; 0]);
    }
}
