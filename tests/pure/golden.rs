//! Texts that are compared with files under tests/fixtures. `REVSYNC_BLESS=1` rewrites the files.

use std::path::Path;

/// Compares a text with a golden file, or rewrites the file when that is asked for.
pub(crate) fn assert_golden(file: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(file);
    if std::env::var_os("REVSYNC_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "{file} differs; REVSYNC_BLESS=1 rewrites it\n--- expected\n{expected}\n--- actual\n{actual}");
}
