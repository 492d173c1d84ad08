//! What tests take from npm: installed when first asked for, in the versions of a lock file, into a folder that the next runs find.
//!
//! Never skips silently: a tool that is missing fails the test with the advice of whoever asks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed.
pub(crate) struct Package {
    /// The folder in `tests/services` with `package.json` and `package-lock.json`, and the name of the folder that it is installed in.
    pub(crate) name: &'static str,
    /// What it is, in words.
    pub(crate) what: &'static str,
    /// What to do where a tool is missing.
    pub(crate) advice: &'static str,
}

impl Package {
    /// The folder with its recipe.
    pub(crate) fn recipe(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/services").join(self.name)
    }

    /// The folder that it is installed in; filled with npm, and by `finish`, if it is not there yet in this version.
    pub(crate) fn installed(&self, finish: impl FnOnce(&Path)) -> PathBuf {
        let Self { name, what, advice } = self;
        let wanted = fs::read_to_string(self.recipe().join("package-lock.json")).expect("the package's versions");
        let home = std::env::var_os("REVSYNC_TEST_CACHE")
            .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../services"), PathBuf::from)
            .join(name);
        fs::create_dir_all(&home).unwrap_or_else(|error| panic!("cannot make {}: {error}", home.display()));
        // Several test processes may want it at once; the lock goes when the file is closed.
        let lock = File::create(home.join("lock")).expect("a lock file");
        lock.lock().expect("a lock on a file of our own");
        let complete = home.join("complete");
        if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
            return home;
        }
        eprintln!("installing {what} with npm into {}", home.display());
        for file in ["package.json", "package-lock.json"] {
            fs::copy(self.recipe().join(file), home.join(file)).expect("a file in the cache");
        }
        let output = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&home).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run npm: {error}. {advice}"));
        assert!(output.status.success(), "npm could not install {what}: {}. {advice}", String::from_utf8_lossy(&output.stderr));
        finish(&home);
        fs::write(complete, wanted).expect("a marker file");
        home
    }
}
