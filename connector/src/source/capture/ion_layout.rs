//! The layout of Ion binary 1.0: where a value ends, and whether its inside is laid out as its lengths say.
//!
//! From the Amazon Ion binary encoding specification, "Value Streams" and "Typed Value Formats". Decodes no value: that is the codec's.

use super::window::VALUE_LIMIT;

/// The version marker of Ion 1.0, with which every self-contained stream begins.
pub(super) const VERSION_MARKER: [u8; 4] = [0xE0, 0x01, 0x00, 0xEA];

/// The type codes that matter to a layout; the high half of a type descriptor.
pub(super) mod code {
    pub(in super::super) const NULL: u8 = 0x0;
    pub(in super::super) const SYMBOL: u8 = 0x7;
    pub(in super::super) const LIST: u8 = 0xB;
    pub(in super::super) const SEXP: u8 = 0xC;
    pub(in super::super) const STRUCT: u8 = 0xD;
    pub(in super::super) const ANNOTATED: u8 = 0xE;
}

/// `$ion_symbol_table` and `imports` in the system symbol table.
const SYMBOL_TABLE: u64 = 3;
const IMPORTS: u64 = 6;

/// How deep [`scalars_hold`] looks. Far deeper than any document; keeps its memory small.
const DEEPEST: usize = 1 << 16;

/// The beginning of a value: its type, and where its body lies, counted from the type descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) code: u8,
    pub(super) low: u8,
    pub(super) body: usize,
    pub(super) length: u64,
}

impl Head {
    /// Padding that is no value (type 0 with a length).
    pub(super) fn is_padding(&self) -> bool {
        self.code == code::NULL && self.low != 15
    }

    /// All its bytes.
    pub(super) fn total(&self) -> u64 {
        self.length.saturating_add(self.body as u64)
    }
}

/// Why a head could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The bytes end inside it.
    Short,
    /// No value begins like this.
    Bad(&'static str),
}

/// Reads the head of the value that `bytes` begins with.
pub(super) fn head(bytes: &[u8]) -> Result<Head, Unreadable> {
    let &descriptor = bytes.first().ok_or(Unreadable::Short)?;
    let (kind, low) = (descriptor >> 4, descriptor & 15);
    let counted = |body: usize, length: u64| Ok(Head { code: kind, low, body, length });
    let by_var_uint = || var_uint(&bytes[1..]).and_then(|(length, width)| counted(1 + width, length));
    match (kind, low) {
        (0xF, _) => Err(Unreadable::Bad("a reserved type descriptor")),
        (0xE, 15) => Err(Unreadable::Bad("an annotation wrapper that is null")),
        (0xE, 0..=2) => Err(Unreadable::Bad("an annotation wrapper too short for a value")),
        (_, 15) => counted(1, 0),
        (0x1, 0 | 1) => counted(1, 0),
        (0x1, _) => Err(Unreadable::Bad("a bool that is neither true nor false")),
        (0x3, 0) => Err(Unreadable::Bad("a negative zero")),
        (0x4, 0 | 4 | 8) => counted(1, u64::from(low)),
        (0x4, _) => Err(Unreadable::Bad("a float of no legal length")),
        (0x6, 0 | 1) => Err(Unreadable::Bad("a timestamp without a year")),
        (0xD, 1) => match by_var_uint()? {
            Head { length: 0, .. } => Err(Unreadable::Bad("an ordered struct without fields")),
            head => Ok(head),
        },
        (_, 14) => by_var_uint(),
        _ => counted(1, u64::from(low)),
    }
}

/// A number of seven bits a byte, the last one marked; with its width. Padding with zeros is legal.
fn var_uint(bytes: &[u8]) -> Result<(u64, usize), Unreadable> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        if value >> 57 != 0 {
            return Err(Unreadable::Bad("a length beyond 64 bits"));
        }
        value = value << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 != 0 {
            return Ok((value, i + 1));
        }
    }
    Err(if bytes.len() < 10 { Unreadable::Short } else { Unreadable::Bad("a length that does not end") })
}

/// What a symbol table does to the tables before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolTable {
    /// It adds to them (`imports: $ion_symbol_table`).
    Appends,
    /// It takes their place.
    Replaces,
}

/// Where the value inside an annotation wrapper lies, and whether the wrapper makes it a symbol table.
/// `wrapper` is the whole wrapper; an error when it does not hold exactly one value.
pub(super) fn unwrap(wrapper: &[u8], head: &Head) -> Result<Option<SymbolTable>, &'static str> {
    const MISFIT: &str = "an annotation wrapper that does not hold exactly one value";
    let inside = wrapper.get(head.body..).ok_or(MISFIT)?;
    let (annotations, width) = var_uint(inside).map_err(|_| MISFIT)?;
    let annotations = usize::try_from(annotations).map_err(|_| MISFIT)?;
    let value = width.checked_add(annotations).and_then(|at| inside.get(at..)).ok_or(MISFIT)?;
    let inner = self::head(value).map_err(|_| MISFIT)?;
    if annotations == 0 || inner.is_padding() || inner.code == code::ANNOTATED || inner.total() != value.len() as u64 {
        return Err(MISFIT);
    }
    let first = var_uint(&inside[width..]).map_err(|_| MISFIT)?.0;
    if first != SYMBOL_TABLE || inner.code != code::STRUCT {
        return Ok(None);
    }
    Ok(Some(if appends(&value[inner.body..]) { SymbolTable::Appends } else { SymbolTable::Replaces }))
}

/// Whether a symbol table's fields hold `imports: $ion_symbol_table`.
fn appends(mut fields: &[u8]) -> bool {
    while let Ok((name, width)) = var_uint(fields) {
        let Ok(head) = head(&fields[width..]) else { return false };
        let Some(value) = usize::try_from(head.total()).ok().and_then(|total| fields[width..].get(..total)) else { return false };
        if name == IMPORTS && head.code == code::SYMBOL {
            let id = value[head.body..].iter().fold(0u64, |id, &byte| id << 8 | u64::from(byte));
            return head.low != 15 && id == SYMBOL_TABLE;
        }
        fields = &fields[width + value.len()..];
    }
    false
}

/// Whether every place in `places` (ascending) lies inside one scalar of a value whose nested lengths all fit.
///
/// A version marker inside a value is either the content of a blob or a text, or the sign that a damaged length has swallowed
/// the records behind it; this tells them apart. Walks without recursion: no nesting can overflow the stack.
pub(super) fn scalars_hold(value: &[u8], places: impl IntoIterator<Item = usize>) -> bool {
    let mut places = places.into_iter().peekable();
    let mut open: Vec<(usize, bool)> = Vec::new();
    let (mut at, mut wrapped) = (0, false);
    // A top-level scalar or list is nothing that a stream of records holds.
    if !matches!(value.first().map(|b| b >> 4), Some(code::STRUCT | code::ANNOTATED)) {
        return places.peek().is_none();
    }
    loop {
        while let Some(&(end, _)) = open.last() {
            if at < end {
                break;
            }
            open.pop();
        }
        let (end, fields) = open.last().copied().unwrap_or((value.len(), false));
        if at == value.len() {
            return places.peek().is_none();
        }
        if fields && !wrapped {
            match var_uint(&value[at..end]) {
                Ok((_, width)) => at += width,
                Err(_) => return false,
            }
        }
        let Ok(head) = head(&value[at..end]) else { return false };
        let Ok(total) = usize::try_from(head.total()) else { return false };
        if total > end - at || total > VALUE_LIMIT {
            return false;
        }
        let (body, next) = (at + head.body, at + total);
        wrapped = false;
        match head.code {
            code::ANNOTATED => {
                if unwrap(&value[at..next], &head).is_err() {
                    return false;
                }
                // It fits, as just seen: the annotations are passed over, and the value inside comes next.
                let Ok((annotations, width)) = var_uint(&value[body..next]) else { return false };
                (at, wrapped) = (body + width + annotations as usize, true);
                continue;
            }
            code::LIST | code::SEXP | code::STRUCT if head.length > 0 => {
                if open.len() == DEEPEST {
                    return false;
                }
                open.push((next, head.code == code::STRUCT));
                at = body;
                continue;
            }
            _ => {}
        }
        while places.next_if(|&place| body <= place && place + VERSION_MARKER.len() <= next).is_some() {}
        if places.peek().is_some_and(|&place| place < next) {
            return false;
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_every_legal_form_are_read() {
        let head_of = |bytes: &[u8]| head(bytes).map(|h| (h.code, h.body, h.length));
        assert_eq!(head_of(&[0x0F]), Ok((0, 1, 0)));
        assert_eq!(head_of(&[0x11]), Ok((1, 1, 0)));
        assert_eq!(head_of(&[0x48]), Ok((4, 1, 8)));
        assert_eq!(head_of(&[0x83, b'a']), Ok((8, 1, 3)));
        assert_eq!(head_of(&[0x8E, 0x90]), Ok((8, 2, 16)));
        assert_eq!(head_of(&[0x8E, 0x00, 0x00, 0x90]), Ok((8, 4, 16)), "a padded length is legal");
        assert_eq!(head_of(&[0xD1, 0x83]), Ok((0xD, 2, 3)), "an ordered struct");
        assert_eq!(head_of(&[0xDF]), Ok((0xD, 1, 0)));
        assert_eq!(head_of(&[0x0E, 0x01, 0x80]), Ok((0, 3, 128)), "padding");
    }

    #[test]
    fn illegal_heads_are_told_from_short_ones() {
        for illegal in
            [&[0xF0][..], &[0xEF], &[0xE1], &[0xE2, 0], &[0x12], &[0x30], &[0x43], &[0x60], &[0x61], &[0xD1, 0x80], &[0x8E; 12][..0]]
        {
            match head(illegal) {
                Err(Unreadable::Bad(_)) => {}
                other => assert!(illegal.is_empty(), "{illegal:02x?} was {other:?}"),
            }
        }
        assert!(matches!(head(&[0x8E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Unreadable::Bad(_))));
        assert!(matches!(head(&[0x8E, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF]), Err(Unreadable::Bad(_))));
        for short in [&[][..], &[0x8E], &[0x8E, 0x01], &[0xD1]] {
            assert_eq!(head(short), Err(Unreadable::Short));
        }
    }

    #[test]
    fn a_symbol_table_is_known_in_every_length_form() {
        let table = |bytes: &[u8]| unwrap(bytes, &head(bytes).unwrap());
        assert!(table(&[0xE4, 0x81, 0x83, 0xD0, 0x20]).is_err(), "two values");
        assert_eq!(table(&[0xE3, 0x81, 0x83, 0xD0]), Ok(Some(SymbolTable::Replaces)));
        assert_eq!(table(&[0xEE, 0x83, 0x81, 0x83, 0xD0]), Ok(Some(SymbolTable::Replaces)));
        assert_eq!(table(&[0xEE, 0x00, 0x84, 0x00, 0x81, 0x83, 0xD0]), Ok(Some(SymbolTable::Replaces)));
        assert_eq!(table(&[0xE6, 0x81, 0x83, 0xD3, 0x86, 0x71, 0x03]), Ok(Some(SymbolTable::Appends)));
        assert_eq!(table(&[0xE5, 0x81, 0x83, 0xD2, 0x86, 0xB0]), Ok(Some(SymbolTable::Replaces)));
        assert_eq!(table(&[0xE3, 0x81, 0x84, 0xD0]), Ok(None), "another annotation");
        assert_eq!(table(&[0xE3, 0x81, 0x83, 0xB0]), Ok(None), "no struct");
    }

    #[test]
    fn a_version_marker_is_content_only_inside_a_scalar() {
        let blob = [0xD6, 0x84, 0xA4, 0xE0, 0x01, 0x00, 0xEA];
        assert!(scalars_hold(&blob, [3]));
        let annotated = [0xD9, 0x84, 0xE7, 0x81, 0x84, 0xA4, 0xE0, 0x01, 0x00, 0xEA];
        assert!(scalars_hold(&annotated, [6]));
        let across = [0xD6, 0x84, 0xA3, 0xE0, 0x01, 0x00, 0xEA];
        assert!(!scalars_hold(&across, [3]));
        assert!(!scalars_hold(&[0x84, 0xE0, 0x01, 0x00, 0xEA], [1]), "a top-level string");
    }

    #[test]
    fn deep_nesting_is_walked_without_recursion() {
        let mut value = vec![0x20];
        for _ in 0..50_000 {
            let length = value.len();
            let mut outer = vec![0xBE];
            outer.extend([
                (length >> 21) as u8 & 0x7F,
                (length >> 14) as u8 & 0x7F,
                (length >> 7) as u8 & 0x7F,
                length as u8 & 0x7F | 0x80,
            ]);
            outer.reverse();
            value.extend(outer);
        }
        value.reverse();
        assert!(scalars_hold(&value, []));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_walked_without_a_panic(bytes: Vec<u8>, places: [u8; 3]) {
            let mut places = places.map(usize::from);
            places.sort_unstable();
            scalars_hold(&bytes, places);
            if let Ok(head) = head(&bytes) {
                let _ = unwrap(&bytes, &head);
            }
        }
    }
}
