//! What everything that speaks to Kafka has in common: how topics are named, the properties of a client, and the client itself.
//!
//! A leaf, like [`aws`](crate::aws). Reads and writes no topic. A value that may be a secret is never shown.

mod address;
#[cfg(feature = "kafka")]
pub mod client;
#[cfg(feature = "kafka")]
mod headers;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::address::{Address, Topics};
#[cfg(feature = "kafka")]
pub use self::headers::headers;

/// Properties of a Kafka client, by the names that librdkafka has for them (librdkafka, `CONFIGURATION.md`).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Properties(pub BTreeMap<String, String>);

impl Properties {
    /// These, and those of the command line over them.
    #[must_use]
    pub fn with(mut self, given: &[Property]) -> Self {
        self.0.extend(given.iter().map(|Property { key, value }| (key.clone(), value.clone())));
        self
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(key, value)| (key, if is_secret(key) { "…" } else { value });
        f.debug_map().entries(self.0.iter().map(|(key, value)| shown((key.as_str(), value.as_str())))).finish()
    }
}

/// One property as the command line has it: `KEY=VALUE`.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Properties::default().with(std::slice::from_ref(self)).fmt(f)
    }
}

impl FromStr for Property {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=').map(|(key, value)| (key.trim(), value)) {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            // The text may be a secret whose name was forgotten.
            _ => Err("expected KEY=VALUE, such as security.protocol=SASL_SSL".to_owned()),
        }
    }
}

/// Whether the value of a property is not to be seen: passwords, keys and tokens.
pub fn is_secret(key: &str) -> bool {
    let is = |end: &str| key.ends_with(end);
    is("password") || is("secret") || is(".pem") || is("sasl.oauthbearer.config") || is("assertion.private.key.passphrase")
}
