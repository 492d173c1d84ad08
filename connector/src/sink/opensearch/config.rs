//! What an OpenSearch sink has to know: where the index is, how to get in, what to create.
//!
//! Plain data, complete and free of contradictions; what the configuration file and the options come to is decided by
//! [`config`](crate::config). Never shows a secret: a password is a [`Secret`].

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use crate::aws::Aws;

/// Where the index is and how to get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The endpoint, `http(s)://HOST:PORT`, with a path prefix where a proxy wants one. User name and password belong into `access`.
    pub url: Url,
    /// How requests are authorised.
    pub access: Access,
    /// A PEM file with certificates to trust beside the system's own.
    pub ca_file: Option<PathBuf>,
    /// A PEM file with a client certificate and its private key; it does not go together with AWS signatures.
    pub client_certificate_file: Option<PathBuf>,
    /// Whether request bodies are compressed.
    pub gzip: bool,
    /// Whether missing indices are created, as NAME-000001 with NAME as its write alias.
    pub create_index: bool,
    /// How long a created index remembers the versions of deleted documents (`index.gc_deletes`), as OpenSearch writes times: `24h`. The
    /// memory does not survive a restart of the node.
    pub gc_deletes: String,
    /// How long one request may take, from connecting to the last byte of the answer.
    pub request_timeout: Duration,
}

impl Config {
    /// The defaults of the configuration file for an endpoint that wants no credentials.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            access: Access::Open,
            ca_file: None,
            client_certificate_file: None,
            gzip: true,
            create_index: true,
            gc_deletes: "24h".to_owned(),
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// How requests are authorised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Not at all; a client certificate may still be given.
    Open,
    /// By user name and password.
    Basic {
        /// The user name; `None` takes that of the secret that the password is stored in.
        username: Option<String>,
        /// The password, or where it is.
        password: Password,
    },
    /// By AWS Signature Version 4, for an Amazon OpenSearch Service domain (service `es`).
    Aws(Aws),
    /// By AWS Signature Version 4, for an OpenSearch Serverless collection (service `aoss`).
    Aoss(Aws),
}

/// A password, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// This one.
    Given(Secret),
    /// The text of a file, without the line end; read again when the server refuses it, so that a rotated password is found.
    File(PathBuf),
    /// In AWS Secrets Manager, under this ARN or name: text, or an object with `password` and perhaps `username`; read again when the server
    /// refuses it. It is read with the credentials of the AWS environment, in the region of the ARN or else of the AWS environment.
    Stored(String),
}

/// A password or another value that is never shown: not by `Debug`, and not when a configuration is written out.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for whoever has to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Writes a reference to the environment in the value's place: the only form in which a password belongs into a file that is shared.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("${SEARCH_PASSWORD}")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Secret, E> {
                Ok(Secret::new(text))
            }
        }
        // What was found instead is not named: it may be the secret, unquoted.
        deserializer.deserialize_string(Text).map_err(|_| D::Error::invalid_type(Unexpected::Other("another type"), &Text))
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_nowhere() {
        let secret = Secret::new("correct horse");
        assert_eq!(format!("{secret:?}"), "***");
        assert!(!serde_json::to_string(&secret).unwrap().contains("horse"));
        let error = serde_json::from_str::<Secret>("12345").unwrap_err().to_string();
        assert!(!error.contains("12345"), "{error}");
    }
}
