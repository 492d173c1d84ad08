//! Patterns of LIKE: `%` stands for any text, `_` for any one character.
//!
//! Compares code points, case and all; never takes longer than the product of the two lengths.

/// A pattern, ready to be compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Char(char),
}

impl Pattern {
    /// Reads a pattern. The character after an escape character stands for itself; without one there is no way to mean `%` itself.
    ///
    /// # Errors
    /// An escape character with nothing behind it.
    pub(super) fn read(text: &str, escape: Option<char>) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            pieces.push(match c {
                c if Some(c) == escape => {
                    let c = rest.next();
                    Piece::Char(c.ok_or("expected a character behind the escape character, found the end of the pattern")?)
                }
                '%' => Piece::Any,
                '_' => Piece::One,
                c => Piece::Char(c),
            });
        }
        Ok(Self(pieces))
    }

    /// Whether the whole of `text` fits.
    pub(super) fn fits(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // Where to go on when what follows the last `%` does not fit: the piece after it, and the text that is left to it.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let piece = self.0.get(at);
            if piece == Some(&Piece::Any) {
                at += 1;
                retry = Some((at, rest.clone()));
                continue;
            }
            let c = rest.next();
            match (piece, c) {
                (None, None) => return true,
                (Some(Piece::One), Some(_)) => at += 1,
                (Some(Piece::Char(wanted)), Some(c)) if *wanted == c => at += 1,
                // With no text left, taking more of it into the `%` cannot help.
                (_, None) => return false,
                (_, Some(_)) => {
                    let Some((after, left)) = &mut retry else { return false };
                    left.next();
                    at = *after;
                    rest = left.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        Pattern::read(pattern, Some('!')).unwrap().fits(text)
    }

    #[test]
    fn a_pattern_fits_the_whole_text() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("abc", &["abc"], &["ABC", "abcd", "ab", ""]),
            ("a%", &["a", "abc"], &["ba", ""]),
            ("%a", &["a", "cba", "aa"], &["ab", ""]),
            ("%a%b%", &["ab", "xaxbx", "aab", "abab"], &["ba", "a"]),
            ("_", &["a", "é", "😀", "%"], &["", "ab"]),
            ("a_c%", &["abc", "aéc…"], &["ac", "abbc"]),
            ("%%", &["", "x"], &[]),
            ("100!%", &["100%"], &["100", "1000"]),
            ("a!_!!", &["a_!"], &["ab!", "a_"]),
        ] {
            for text in yes {
                assert!(fits(pattern, text), "{pattern} {text}");
            }
            for text in no {
                assert!(!fits(pattern, text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn a_pattern_of_many_wildcards_does_not_take_for_ever() {
        assert!(!fits(&"%a".repeat(50), &format!("{}b", "a".repeat(5_000))));
    }

    #[test]
    fn an_escape_character_with_nothing_behind_it_is_refused() {
        assert!(Pattern::read("a!", Some('!')).is_err());
        assert_eq!(Pattern::read("a!", None).map(|pattern| pattern.fits("a!")), Ok(true));
    }
}
