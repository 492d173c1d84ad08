//! How the client proves who it is: not at all, by user name and password, or by signature.
//!
//! Each proof has a generation, so that requests that were refused with the same one bring about one refresh. Never shows a password.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use aws_config::Region;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use opensearch::http::headers::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::client::{Trouble, TroubleKind, deepest, read};
use super::clock::Clock;
use super::config::{Access, Password};
use super::sign::{self, Held, Provider};
use crate::aws::Aws;
use crate::error::Error;

/// What a request is sent with.
#[derive(Debug)]
pub(super) enum Proof {
    None,
    Basic(Basic),
    Signed(Arc<Held>),
}

#[derive(Debug)]
pub(super) struct Basic {
    username: String,
    file: Option<PathBuf>,
    /// The header (marked sensitive, so that its `Debug` is hidden), and how often it has been read anew.
    header: RwLock<(HeaderValue, u64)>,
}

/// What the transport signs with.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) credentials: SharedCredentialsProvider,
    pub(super) region: Region,
    pub(super) service: &'static str,
}

impl Proof {
    /// Reads a password's file, and finds the source of AWS credentials unless one is given.
    pub(super) async fn new(
        access: &Access,
        provider: Option<SharedCredentialsProvider>,
        clock: &Clock,
    ) -> Result<(Self, Option<Signing>), Error> {
        let (aws, service) = match access {
            Access::Open => return Ok((Self::None, None)),
            Access::Basic { username, password } => return Ok((Self::Basic(Basic::new(username, password)?), None)),
            Access::Aws(aws) => (aws, "es"),
            Access::Aoss(aws) => (aws, "aoss"),
        };
        let (region, provider) = match (provider, aws) {
            (Some(provider), Aws { region: Some(region), .. }) => (Region::new(region.clone()), provider),
            (Some(_), Aws { region: None, .. }) => return Err(sign::no_region()),
            (None, aws) => sign::find(aws).await?,
        };
        let held = Arc::new(Held::new(provider, clock.clone()));
        let credentials = SharedCredentialsProvider::new(Provider(Arc::clone(&held)));
        Ok((Self::Signed(held), Some(Signing { credentials, region, service })))
    }

    /// The headers of a request, and the generation of the proof that it is sent with.
    pub(super) async fn headers(&self) -> Result<(u64, HeaderMap), Trouble> {
        let mut headers = HeaderMap::new();
        let generation = match self {
            Self::None => 0,
            Self::Basic(basic) => {
                let header = basic.header.read().unwrap_or_else(PoisonError::into_inner);
                headers.insert(AUTHORIZATION, header.0.clone());
                header.1
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
            Self::Basic(basic) => basic.refresh(generation),
        }
    }

    /// Who the requests come from, for messages.
    pub(super) fn user(&self) -> String {
        match self {
            Self::None => "a client without credentials".to_owned(),
            Self::Basic(basic) => format!("user {:?}", basic.username),
            Self::Signed(_) => "the AWS identity".to_owned(),
        }
    }
}

impl Basic {
    fn new(username: &str, password: &Password) -> Result<Self, Error> {
        let (header, file) = match password {
            Password::Given(password) => (header(username, password.reveal())?, None),
            Password::File(file) => (header(username, &read_password(file)?)?, Some(file.clone())),
        };
        Ok(Self { username: username.to_owned(), file, header: RwLock::new((header, 0)) })
    }

    fn refresh(&self, generation: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let fresh = read_password(file).ok().and_then(|password| header(&self.username, &password).ok());
        let mut header = self.header.write().unwrap_or_else(PoisonError::into_inner);
        if header.1 != generation {
            return true;
        }
        match fresh {
            Some(fresh) if fresh != header.0 => {
                *header = (fresh, generation + 1);
                true
            }
            _ => false,
        }
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

    #[tokio::test]
    async fn a_password_is_sent_and_never_shown() {
        let access = Access::Basic { username: "admin".to_owned(), password: Password::Given(Secret::new("p@ss")) };
        let (proof, _) = Proof::new(&access, None, &Clock::default()).await.unwrap();
        let (_, headers) = proof.headers().await.unwrap();
        assert_eq!(headers[AUTHORIZATION].as_bytes(), b"Basic YWRtaW46cEBzcw==");
        let shown = format!("{access:?} {proof:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("YWRtaW46"), "{shown}");
    }

    #[tokio::test]
    async fn a_password_file_that_is_not_there_is_found_at_the_start() {
        let access = Access::Basic { username: "admin".to_owned(), password: Password::File("/nowhere".into()) };
        let error = Proof::new(&access, None, &Clock::default()).await.unwrap_err().to_string();
        assert!(error.contains("cannot read password_file /nowhere"), "{error}");
    }

    #[test]
    fn a_rotated_password_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "one\n").unwrap();
        let basic = Basic::new("admin", &Password::File(file.clone())).unwrap();
        assert!(!basic.refresh(0), "the same password is no reason to try again");
        std::fs::write(&file, "two\n").unwrap();
        assert!(basic.refresh(0));
        assert!(basic.refresh(0), "another request was refused with the first password");
        assert!(!basic.refresh(1));
        assert_eq!(basic.header.read().unwrap().0.as_bytes(), b"Basic YWRtaW46dHdv");
    }
}
