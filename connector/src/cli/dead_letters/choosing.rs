//! Which dead letters a command is about, as a person says it: tables, classes of error, times.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::config::Span;
use crate::run::choice::Choice;
use crate::run::clock;

/// Which letters.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which letters")]
pub(super) struct ChoosingOptions {
    /// Only of this table, or of all that a pattern with * names; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',', env = "REVSYNC_TABLE", hide_env_values = true)]
    table: Vec<String>,
    /// Only with this class of error, as dead-letters list shows it; may be given several times
    #[arg(long, value_name = "KIND", value_delimiter = ',', env = "REVSYNC_REASON", hide_env_values = true)]
    reason: Vec<String>,
    /// Only what became a dead letter before this: a time such as 2024-05-06T07:08:09Z, or an age such as 2h
    #[arg(long, value_name = "TIME", env = "REVSYNC_BEFORE", hide_env_values = true)]
    before: Option<When>,
    /// Only what became a dead letter after this: a time, or an age
    #[arg(long, value_name = "TIME", env = "REVSYNC_AFTER", hide_env_values = true)]
    after: Option<When>,
}

impl ChoosingOptions {
    /// Whether anything was said, so that some letters may be left out.
    pub(super) fn chooses(&self) -> bool {
        !self.table.is_empty() || !self.reason.is_empty() || self.before.is_some() || self.after.is_some()
    }

    /// The choice, with ages counted from now.
    pub(super) fn choice(&self) -> Choice {
        Choice {
            ids: None,
            tables: self.table.clone(),
            reasons: self.reason.clone(),
            before: self.before.map(When::moment),
            after: self.after.map(When::moment),
        }
    }
}

/// A moment, or how long ago it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    At(OffsetDateTime),
    Ago(Duration),
}

impl When {
    fn moment(self) -> OffsetDateTime {
        match self {
            Self::At(moment) => moment,
            Self::Ago(time) => clock::ago(time),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(moment) = OffsetDateTime::parse(text, &Rfc3339) {
            return Ok(Self::At(moment));
        }
        let age = text.parse().map(|Span(time)| Self::Ago(time));
        age.map_err(|_| "expected a time such as 2024-05-06T07:08:09Z (RFC 3339), or an age such as 2h (ms, s, m, h, d)".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_or_an_age() {
        assert_eq!("2h".parse(), Ok(When::Ago(Duration::from_secs(7_200))));
        let moment = OffsetDateTime::from_unix_timestamp(1_714_979_289).unwrap();
        assert_eq!("2024-05-06T07:08:09Z".parse(), Ok(When::At(moment)));
        assert_eq!("2024-05-06T09:08:09+02:00".parse(), Ok(When::At(moment)));
        for text in ["", "yesterday", "2024-05-06", "2"] {
            assert!(text.parse::<When>().unwrap_err().contains("RFC 3339"), "{text}");
        }
    }
}
