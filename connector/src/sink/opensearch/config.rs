//! What a configuration says about an OpenSearch sink: table `[sink]` of the file.
//!
//! Never shows a secret: the password and credentials inside the URL are left out of `Debug`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

/// Where the index is and how to get in.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The endpoint, `http(s)://HOST:PORT`, with a path prefix where a proxy wants one; `USER:PASSWORD@` in it is read as user name and password. Default: `http://localhost:9200`.
    pub url: String,
    /// How requests are authenticated. Default: `none`, or `basic` where a user name is given.
    pub auth: Option<Auth>,
    /// The user name of basic authentication. Default: the one in the URL.
    pub username: Option<String>,
    /// The password of basic authentication; comes from the environment or a file, not from the command line. Default: the one in the URL.
    pub password: Option<Secret>,
    /// A file that holds the password; read again when the server refuses it, so that a rotated secret is found. Default: none.
    pub password_file: Option<PathBuf>,
    /// A PEM file with certificates to trust beside the system's own. Default: none.
    pub ca_file: Option<PathBuf>,
    /// A PEM file with a client certificate and its private key. Default: none.
    pub client_certificate_file: Option<PathBuf>,
    /// Whether request bodies are compressed. Default: `true`.
    pub gzip: bool,
    /// Whether missing indices are created, as NAME-000001 with NAME as its write alias. Default: `true`.
    pub create_index: bool,
    /// How long a created index remembers the versions of deleted documents (`index.gc_deletes`); the memory does not survive a restart of the node. Default: `24h`.
    pub gc_deletes: String,
    /// How long one request may take, from connecting to the last byte of the answer. Default: `30s`.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub request_timeout: Duration,
    /// AWS settings, for `auth = "aws"` and `auth = "aoss"`.
    pub aws: Aws,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "http://localhost:9200".to_owned(),
            auth: None,
            username: None,
            password: None,
            password_file: None,
            ca_file: None,
            client_certificate_file: None,
            gzip: true,
            create_index: true,
            gc_deletes: "24h".to_owned(),
            request_timeout: Duration::from_secs(30),
            aws: Aws::default(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart by name, so that a new field has to be thought about here.
        let Self {
            url,
            auth,
            username,
            password,
            password_file,
            ca_file,
            client_certificate_file,
            gzip,
            create_index,
            gc_deletes,
            request_timeout,
            aws,
        } = self;
        f.debug_struct("Config")
            .field("url", &without_credentials(url))
            .field("auth", auth)
            .field("username", username)
            .field("password", password)
            .field("password_file", password_file)
            .field("ca_file", ca_file)
            .field("client_certificate_file", client_certificate_file)
            .field("gzip", gzip)
            .field("create_index", create_index)
            .field("gc_deletes", gc_deletes)
            .field("request_timeout", request_timeout)
            .field("aws", aws)
            .finish()
    }
}

/// The text of a URL without `USER:PASSWORD@`; works on text that is no URL too, because that is what error messages quote.
pub fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    // The last `@` ends the credentials, even when a password holds a `/` that should have been escaped.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

/// How requests are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Not at all (a client certificate may still be given).
    None,
    /// User name and password.
    Basic,
    /// AWS Signature Version 4 for an Amazon OpenSearch Service domain.
    Aws,
    /// AWS Signature Version 4 for an OpenSearch Serverless collection.
    Aoss,
}

/// Where AWS credentials come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Aws {
    /// The region to sign for. Default: the environment's or the profile's.
    pub region: Option<String>,
    /// A role to assume before signing. Default: none.
    pub assume_role_arn: Option<String>,
    /// A profile of the shared AWS configuration files. Default: `AWS_PROFILE`, or `default`.
    pub profile: Option<String>,
}

/// Text that must not be seen. `Debug` prints nothing of it, and it has no `Display`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).ok_or_else(|| de::Error::custom(format!("expected a time such as \"30s\", \"500ms\" or \"2m\", found {text:?}")))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let count: u64 = text[..digits].parse().ok()?;
    let milliseconds = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    count.checked_mul(milliseconds).filter(|total| *total > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_the_debug_form() {
        let config = Config {
            url: "https://admin:hunter2@search.example.com/prefix".to_owned(),
            password: Some(Secret::new("hunter3")),
            ..Config::default()
        };
        let shown = format!("{config:?}");
        assert!(shown.contains("https://search.example.com/prefix"), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(!shown.contains("admin"), "{shown}");
    }

    #[test]
    fn credentials_leave_a_url_even_where_it_is_malformed() {
        assert_eq!(without_credentials("https://u:p@h:9200/x"), "https://h:9200/x");
        assert_eq!(without_credentials("u:p@h"), "h");
        assert_eq!(without_credentials("https://u:p/a@s@h/x"), "https://h/x");
        assert_eq!(without_credentials("http://h"), "http://h");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let error = toml::from_str::<Config>("urll = \"http://h\"").unwrap_err().to_string();
        assert!(error.contains("urll"), "{error}");
        let error = toml::from_str::<Config>("[aws]\nrole = \"x\"").unwrap_err().to_string();
        assert!(error.contains("role"), "{error}");
    }

    #[test]
    fn a_table_with_only_what_differs_keeps_the_defaults() {
        let config: Config = toml::from_str("url = \"https://h\"\nauth = \"aoss\"\nrequest_timeout = \"5s\"").unwrap();
        assert_eq!(
            config,
            Config { url: "https://h".to_owned(), auth: Some(Auth::Aoss), request_timeout: Duration::from_secs(5), ..Config::default() }
        );
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Some(Duration::from_secs(120)));
        for wrong in ["", "30", "s", "-1s", "1.5s", "0s", "1h", "99999999999999999999s", "18446744073709551615m"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
