//! Index names from table names, and patterns for names.
//!
//! Pure text; never asks a server whether it would take a name.

/// Bytes that an index name made here may have: OpenSearch allows 255, and the first index behind an alias adds `-000001`.
const MAX_BYTES: usize = 248;

/// The index of a table that no rule names: its lower snake case, without what an index name cannot hold.
///
/// `VehicleRegistration` gives `vehicle_registration`, `HTTPLog` gives `http_log`, `Person2` gives `person2`. `None` where nothing usable
/// is left.
pub fn default_index(table: &str) -> Option<String> {
    let mut name = String::with_capacity(table.len() + 4);
    let mut previous = None;
    let mut rest = table.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_uppercase() {
            let begins_word = match previous {
                Some(p) if is_lower_or_digit(p) => true,
                Some(p) => char::is_uppercase(p) && rest.peek().is_some_and(|next| next.is_lowercase()),
                None => false,
            };
            if begins_word && !name.is_empty() {
                name.push('_');
            }
        }
        previous = Some(c);
        name.extend(c.to_lowercase().filter(|c| is_allowed(*c)));
    }
    let name = name.trim_start_matches(['_', '-', '+']);
    (!matches!(name, "" | "." | "..") && name.len() <= MAX_BYTES).then(|| name.to_owned())
}

fn is_lower_or_digit(c: char) -> bool {
    c.is_lowercase() || c.is_numeric()
}

/// OpenSearch refuses these in an index name (`MetadataCreateIndexService.validateIndexOrAliasName`); `:` since 7.0.
fn is_allowed(c: char) -> bool {
    !c.is_uppercase()
        && !c.is_whitespace()
        && !c.is_control()
        && !matches!(c, '\\' | '/' | '*' | '?' | '"' | '<' | '>' | '|' | ',' | '#' | ':')
}

/// A table's name, a pattern for one, or an index name, without what [`default_index`] puts in or takes away: of a table and of its default
/// index the same comes out, and a pattern that fitted the table fits it.
pub(super) fn squashed(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).filter(|c| *c == '*' || (is_allowed(*c) && !matches!(c, '_' | '-' | '+'))).collect()
}

/// Why a configured name cannot be an index, where it cannot.
pub fn index_name_problem(name: &str) -> Option<String> {
    if name.is_empty() || matches!(name, "." | "..") {
        return Some("expected an index name, found none".into());
    }
    if name.len() > MAX_BYTES {
        return Some(format!("expected an index name of at most {MAX_BYTES} bytes, found {}", name.len()));
    }
    if name.starts_with(['_', '-', '+']) {
        return Some(format!("expected an index name that does not begin with _, - or +, found \"{name}\""));
    }
    let bad = name.chars().find(|c| !is_allowed(*c))?;
    Some(format!("expected an index name in lower case without spaces and \\ / * ? \" < > | , # :, found {bad:?} in \"{name}\""))
}

/// Whether a name fits a pattern, in which `*` stands for any text, also none.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_an_index_in_lower_snake_case() {
        for (table, index) in [
            ("VehicleRegistration", "vehicle_registration"),
            ("HTTPLog", "http_log"),
            ("Person2", "person2"),
            ("Person2Address", "person2_address"),
            ("Person", "person"),
            ("person", "person"),
            ("already_snake", "already_snake"),
            ("Vehicle_Registration", "vehicle_registration"),
            ("DriversLicense", "drivers_license"),
            ("A", "a"),
            ("AB", "ab"),
            ("ABc", "a_bc"),
            ("shop.Orders", "shop.orders"),
            ("_Hidden", "hidden"),
            ("-+_x", "x"),
            ("a b", "ab"),
            ("a:b*c", "abc"),
            ("Ärger", "ärger"),
            ("MyID", "my_id"),
        ] {
            assert_eq!(default_index(table).as_deref(), Some(index), "{table}");
            assert_eq!(index_name_problem(index), None, "{index}");
        }
    }

    #[test]
    fn a_table_of_which_nothing_is_left_gives_no_index() {
        for table in ["", "*", "___", "..", ".", " "] {
            assert_eq!(default_index(table), None, "{table:?}");
        }
        assert_eq!(default_index(&"x".repeat(249)), None);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("Person", "Person", true),
            ("Person", "Persons", false),
            ("*", "", true),
            ("*", "x", true),
            ("shop.*", "shop.orders", true),
            ("shop.*", "shop", false),
            ("*.orders", "shop.orders", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("a*", "a", true),
            ("a**c", "ac", true),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("a?", "ab", false),
            ("[a]", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} on {name}");
        }
    }
}
