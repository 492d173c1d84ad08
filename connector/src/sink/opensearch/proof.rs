//! How the client proves who it is: not at all, by user name and password, or by signature.
//!
//! A password that stands somewhere is read again when it is refused, as AWS credentials are. Never shows a password.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_config::Region;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use opensearch::http::headers::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::client::{Trouble, TroubleKind, deepest, read};
use super::clock::Clock;
use super::config::{Access, Password, Secret};
use super::held::{Age, Held, Source};
use super::sign::{self, Keys, Provider};
use crate::aws::Aws;
use crate::aws::secrets::{Login, StoredSecret};
use crate::error::{Error, Kind};

/// What a request is sent with.
#[derive(Debug)]
pub(super) enum Proof {
    None,
    Basic(Box<Held<Basic>>),
    Signed(Arc<Held<Keys>>),
}

/// Where user name and password come from.
#[derive(Debug)]
pub(super) struct Basic {
    /// The user name that is configured.
    username: Option<String>,
    password: Kept,
}

/// Where a password is kept.
#[derive(Debug)]
enum Kept {
    Here(Secret),
    File(PathBuf),
    Secret(StoredSecret),
}

/// A header with user name and password; it is marked as sensitive, so that its `Debug` is hidden.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    username: String,
    value: HeaderValue,
}

/// What the transport signs with.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) credentials: SharedCredentialsProvider,
    pub(super) region: Region,
    pub(super) service: &'static str,
}

impl Proof {
    /// Reads the password where it is kept, and finds the source of AWS credentials unless one is given.
    pub(super) async fn new(
        access: &Access,
        provider: Option<SharedCredentialsProvider>,
        clock: &Clock,
    ) -> Result<(Self, Option<Signing>), Error> {
        let (aws, service) = match access {
            Access::Open => return Ok((Self::None, None)),
            Access::Basic { username, password } => {
                let held = Held::new(Basic::new(username.as_deref(), password).await?);
                // Read here, so that what cannot be read is found at the start.
                held.get().await?;
                return Ok((Self::Basic(Box::new(held)), None));
            }
            Access::Aws(aws) => (aws, "es"),
            Access::Aoss(aws) => (aws, "aoss"),
        };
        let (region, provider) = match (provider, aws) {
            (Some(provider), Aws { region: Some(region), .. }) => (Region::new(region.clone()), provider),
            (Some(_), Aws { region: None, .. }) => return Err(sign::no_region()),
            (None, aws) => sign::find(aws).await?,
        };
        let held = Arc::new(Held::new(Keys::new(provider, clock.clone())));
        let credentials = SharedCredentialsProvider::new(Provider(Arc::clone(&held)));
        Ok((Self::Signed(held), Some(Signing { credentials, region, service })))
    }

    /// The headers of a request, and the generation of the proof that it is sent with.
    pub(super) async fn headers(&self) -> Result<(u64, HeaderMap), Trouble> {
        let mut headers = HeaderMap::new();
        let generation = match self {
            Self::None => 0,
            Self::Basic(held) => {
                let (header, generation) = held.get().await.map_err(|error| no_password(&error))?;
                headers.insert(AUTHORIZATION, header.value);
                generation
            }
            // Asked here as well as by the transport, because the transport's error does not tell why there are none.
            Self::Signed(held) => held.get().await.map_err(|error| no_credentials(&error))?.1,
        };
        Ok((generation, headers))
    }

    /// Gets a new proof after the server refused that of `generation`. Whether there is one, so that trying once more makes sense.
    pub(super) async fn refresh(&self, generation: u64) -> bool {
        match self {
            Self::None => false,
            Self::Signed(held) => held.refresh(generation).await,
            Self::Basic(held) => held.refresh(generation).await,
        }
    }

    /// Who the requests come from, for messages.
    pub(super) fn user(&self) -> String {
        match self {
            Self::None => "a client without credentials".to_owned(),
            Self::Basic(held) => held.last().map_or_else(|| "the user".to_owned(), |header| format!("user {:?}", header.username)),
            Self::Signed(_) => "the AWS identity".to_owned(),
        }
    }
}

impl Basic {
    async fn new(username: Option<&str>, password: &Password) -> Result<Self, Error> {
        let password = match password {
            Password::Given(password) => Kept::Here(password.clone()),
            Password::File(file) => Kept::File(file.clone()),
            Password::Stored(id) => Kept::Secret(Box::pin(StoredSecret::find(id)).await?),
        };
        Ok(Self { username: username.map(str::to_owned), password })
    }
}

impl Source for Basic {
    type Proof = Header;
    type Error = Error;

    async fn fetch(&self) -> Result<Header, Error> {
        let Login { username, password } = match &self.password {
            Kept::Here(password) => Login { username: None, password: password.reveal().to_owned() },
            Kept::File(file) => Login { username: None, password: read_password(file)? },
            Kept::Secret(secret) => Box::pin(secret.read()).await?,
        };
        let username = self.username.clone().or(username).ok_or_else(|| {
            Error::usage("sink: auth is basic, but neither --username nor the secret names a user")
                .help("name the user with --username, or put \"username\" into the secret, beside \"password\"")
        })?;
        Ok(Header { value: header(&username, &password)?, username })
    }

    fn age(&self, _: &Header) -> Age {
        Age::Good
    }
}

fn header(username: &str, password: &str) -> Result<HeaderValue, Error> {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}")));
    let mut header = HeaderValue::from_str(&text).map_err(|_| Error::usage("user name and password do not fit into a header"))?;
    header.set_sensitive(true);
    Ok(header)
}

fn read_password(file: &Path) -> Result<String, Error> {
    let bytes = read(file, "password_file")?;
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("password_file {} is not UTF-8", file.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn no_password(error: &Error) -> Trouble {
    let kind = if error.kind == Kind::Usage { TroubleKind::NoCredentials } else { TroubleKind::Broken };
    Trouble { kind, what: error.to_string() }
}

fn no_credentials(error: &CredentialsError) -> Trouble {
    // An answer of the credentials' source that says "not now" is an outage; that there is none, or a wrong setting, is for a person.
    let kind = match error {
        CredentialsError::ProviderTimedOut(_) | CredentialsError::ProviderError(_) => TroubleKind::Broken,
        _ => TroubleKind::NoCredentials,
    };
    Trouble { kind, what: format!("no AWS credentials to sign with: {}", deepest(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::opensearch::config::Secret;

    fn basic(password: Password) -> Access {
        Access::Basic { username: Some("admin".to_owned()), password }
    }

    async fn sent(proof: &Proof) -> (u64, Vec<u8>) {
        let (generation, headers) = proof.headers().await.unwrap();
        (generation, headers[AUTHORIZATION].as_bytes().to_vec())
    }

    #[tokio::test]
    async fn a_password_is_sent_and_never_shown() {
        let access = basic(Password::Given(Secret::new("p@ss")));
        let (proof, _) = Proof::new(&access, None, &Clock::default()).await.unwrap();
        assert_eq!(sent(&proof).await.1, b"Basic YWRtaW46cEBzcw==");
        let shown = format!("{access:?} {proof:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("YWRtaW46"), "{shown}");
    }

    #[tokio::test]
    async fn a_password_file_that_is_not_there_is_found_at_the_start() {
        let access = basic(Password::File("/nowhere".into()));
        let error = Proof::new(&access, None, &Clock::default()).await.unwrap_err().to_string();
        assert!(error.contains("cannot read password_file /nowhere"), "{error}");
    }

    #[tokio::test]
    async fn a_rotated_password_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "one\n").unwrap();
        let (proof, _) = Proof::new(&basic(Password::File(file.clone())), None, &Clock::default()).await.unwrap();
        let (first, _) = sent(&proof).await;
        assert!(!proof.refresh(first).await, "the same password is no reason to try again");
        std::fs::write(&file, "two\n").unwrap();
        assert!(proof.refresh(first).await);
        assert!(proof.refresh(first).await, "another request was refused with the first password");
        let (second, header) = sent(&proof).await;
        assert!(!proof.refresh(second).await);
        assert_eq!(header, b"Basic YWRtaW46dHdv");
    }
}
