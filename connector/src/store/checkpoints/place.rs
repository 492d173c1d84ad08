//! Where checkpoints are, as it is written: `sink`, or `file:PATH`.
//!
//! Reaches nothing; says of what is no place what was likely meant.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;

const EXPECTED: &str = "checkpoints: expected sink or file:PATH";

/// Where checkpoints are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the sink, beside what they are about.
    Sink,
    /// In a file.
    File(PathBuf),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = || Error::usage(format!("{EXPECTED}, found {text:?}"));
        match text.split_once(':') {
            None if text == "sink" => Ok(Self::Sink),
            Some(("file", "")) => Err(Error::usage(format!("{EXPECTED}, found no path after file:"))),
            Some(("file", path)) => match path.strip_prefix("//") {
                Some(path) => Err(found().help(format!("did you mean file:{path}?"))),
                None => Ok(Self::File(PathBuf::from(path))),
            },
            None if !text.is_empty() => Err(found().help(format!("did you mean file:{text}?"))),
            // An address may hold a password.
            _ => Err(Error::usage(format!("{EXPECTED}, found another kind of place"))
                .help("sink keeps them in the sink itself, whatever that is but bulk: and OpenSearch Serverless")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sink => f.write_str("sink"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_sink_or_a_file() {
        for text in ["sink", "file:x.json", "file:/var/lib/x:y.json"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_place_is_refused_with_what_was_likely_meant() {
        for (text, meant) in [("x.json", "file:x.json"), ("Sink", "file:Sink"), ("file:///x.json", "file:/x.json")] {
            assert_eq!(text.parse::<Place>().unwrap_err().help, Some(format!("did you mean {meant}?")), "{text}");
        }
        for text in ["", "file:", "https://ann:hunter2@h:9200"] {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(error.starts_with(EXPECTED) && !error.contains("hunter2"), "{error}");
        }
    }
}
