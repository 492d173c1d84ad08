//! Halves of surrogate pairs in the escapes of a text, as programs write them that cut texts in UTF-16: JSON allows them, Unicode does not.
//!
//! Knows an escape `\uXXXX` where it stands, and nothing else of a text.

/// What stands for half a pair; as many bytes as the half.
const REPLACEMENT: &str = "\\ufffd";

/// The code unit of an escape that begins behind its backslash.
pub(super) fn code_unit(escape: &str) -> Option<u16> {
    escape.strip_prefix('u')?.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok())
}

/// The character of two escapes that are a pair; what stands behind the first is given.
pub(super) fn pair(high: u16, behind: &str) -> Option<char> {
    let low = behind.strip_prefix('\\').and_then(code_unit)?;
    (0xD800..0xDC00).contains(&high).then(|| char::decode_utf16([high, low]).next()?.ok())?
}

/// A text with U+FFFD in the place of every half, and how many these were; `None` where there are none.
pub(super) fn replaced(text: &str) -> Option<(String, u64)> {
    let mut replaced: Option<(String, u64)> = None;
    let mut at = 0;
    while let Some(step) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        at += step;
        let escape = &text[at + 1..];
        at += match code_unit(escape) {
            Some(unit) if pair(unit, &escape[5..]).is_some() => 12,
            Some(unit) => {
                if (0xD800..0xE000).contains(&unit) {
                    let (text, count) = replaced.get_or_insert_with(|| (text.to_owned(), 0));
                    text.replace_range(at..at + 6, REPLACEMENT);
                    *count += 1;
                }
                6
            }
            None => 1 + escape.chars().next().map_or(0, char::len_utf8),
        };
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_whole_pairs_are_left() {
        for (text, expected) in [
            (r#"{"a":"\ud800"}"#, Some((r#"{"a":"\ufffd"}"#, 1))),
            (r#"["\uDC00\uD83D\uDE00\uD83D","\udfff"]"#, Some((r#"["\ufffd\uD83D\uDE00\ufffd","\ufffd"]"#, 3))),
            (r#""\ud800\ud83d\ude00""#, Some((r#""\ufffd\ud83d\ude00""#, 1))),
            (r#""\\ud800 \\\ud800""#, Some((r#""\\ud800 \\\ufffd""#, 1))),
            (r#""\\ud800 \u0041 \n é""#, None),
            (r#""\ud83d\ude00""#, None),
            (r"\", None),
            (r"\é\u12", None),
            (r"\ud8é0", None),
        ] {
            assert_eq!(replaced(text), expected.map(|(text, count)| (text.to_owned(), count)), "{text}");
        }
    }
}
