//! The names that a QLDB journal export gives its files (Amazon QLDB developer guide, "Export output"): `STRAND.FIRST-LAST.ion` and `.json`, and
//! the manifests `EXPORT.started.manifest` and `EXPORT.STRAND.completed.manifest`.
//!
//! Read from their ends, because what stands in front of them is the user's. Opens nothing.

/// The blocks that a data file holds, both ends included, as its name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Blocks {
    pub(in super::super) strand: String,
    pub(in super::super) first: u64,
    pub(in super::super) last: u64,
}

/// What a manifest is about, as its name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum About {
    /// An export that was begun.
    Started { export: String },
    /// The files of one strand of an export that is done.
    Completed { export: String, strand: Option<String> },
}

/// The last part of a path or key.
pub(super) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A file's name as it was before it was compressed.
pub(super) fn uncompressed(name: &str) -> &str {
    name.strip_suffix(".gz").unwrap_or(name)
}

/// The blocks that a data file holds, by its path or key; nothing where it is not named like one.
pub(in super::super) fn blocks(path: &str) -> Option<Blocks> {
    let (name, extension) = uncompressed(last_part(path)).rsplit_once('.')?;
    if !matches!(extension, "ion" | "10n" | "json") {
        return None;
    }
    let (before, range) = name.rsplit_once('.')?;
    let (first, last) = range.split_once('-')?;
    let strand = before.rsplit('.').next().filter(|strand| !strand.is_empty())?.to_owned();
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(Blocks { strand, first, last })
}

/// What a manifest is about, by its path or key; nothing where it is none of QLDB's.
pub(super) fn about(path: &str) -> Option<About> {
    let name = uncompressed(last_part(path));
    if let Some(export) = name.strip_suffix(".started.manifest") {
        return Some(About::Started { export: export.to_owned() });
    }
    let named = name.strip_suffix(".completed.manifest")?;
    Some(match named.rsplit_once('.') {
        Some((export, strand)) => About::Completed { export: export.to_owned(), strand: Some(strand.to_owned()) },
        None => About::Completed { export: named.to_owned(), strand: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_file_are_read_from_the_end_of_its_name() {
        let blocks_of = |path| blocks(path).map(|Blocks { strand, first, last }| (strand, first, last));
        let strand = "7sWdNf0uQxB4mJkTzL1eRg".to_owned();
        for path in
            ["7sWdNf0uQxB4mJkTzL1eRg.0-17.ion", "a.b/2020.03/7sWdNf0uQxB4mJkTzL1eRg.0-17.json", "x.7sWdNf0uQxB4mJkTzL1eRg.0-17.ion.gz"]
        {
            assert_eq!(blocks_of(path), Some((strand.clone(), 0, 17)), "{path}");
        }
        let highest = format!("s.{0}-{0}.ion", u64::MAX);
        assert_eq!(blocks_of(&highest), Some(("s".to_owned(), u64::MAX, u64::MAX)));
        for path in
            ["s.0-17", "0-17.ion", ".0-17.ion", "s.17-0.ion", "s.0-18446744073709551616.ion", "s.+1-2.ion", "s.1-2-3.ion", "s.0-1.txt", ""]
        {
            assert_eq!(blocks_of(path), None, "{path}");
        }
    }

    #[test]
    fn a_manifest_says_in_its_name_what_it_is_about() {
        assert_eq!(about("p.q/abc.started.manifest"), Some(About::Started { export: "abc".to_owned() }));
        let completed =
            |export: &str, strand: Option<&str>| Some(About::Completed { export: export.to_owned(), strand: strand.map(str::to_owned) });
        assert_eq!(about("a.b/abc.7sWd.completed.manifest"), completed("abc", Some("7sWd")));
        assert_eq!(about("abc.completed.manifest"), completed("abc", None));
        assert_eq!(about("a.b/abc.7sWd.completed.manifest.gz"), completed("abc", Some("7sWd")));
        assert_eq!(about("redshift.manifest"), None);
    }
}
