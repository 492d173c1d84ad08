//! What the commands `check` and `setup` ask a server: is it there, what is it, may we write, do versions hold.
//!
//! Writes only to a scratch index of its own, which it deletes.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;

use super::OpenSearch;
use super::advice::Advice;
use super::client::{Answer, Client, Content, Trouble, TroubleKind, segment};
use super::describe::find_index;
use super::indices::Found;
use crate::error::{Error, Kind};
use crate::plan::outcome::Failure;

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// `opensearch`, or `serverless`.
    pub distribution: String,
    /// The version number; `None` for Serverless, which has none.
    pub version: Option<String>,
    /// The name of the cluster.
    pub cluster: Option<String>,
}

#[derive(Deserialize)]
struct Greeting {
    cluster_name: Option<String>,
    version: Version,
}

#[derive(Deserialize)]
struct Version {
    distribution: Option<String>,
    number: String,
}

impl OpenSearch {
    /// Reaches the server and asks what it is.
    ///
    /// # Errors
    /// [`Kind::Sink`] with advice: not reachable, not trusted, not allowed, or no OpenSearch. [`Kind::Pending`] where the server says that it
    /// cannot answer just now.
    pub async fn probe(&self) -> Result<Probe, Error> {
        let client = &self.client;
        // Serverless answers 404 to `/`.
        let path = if client.serverless { "_cat/indices" } else { "/" };
        let query: &[(&str, &str)] = if client.serverless { &[("format", "json")] } else { &[] };
        let answer = client.send(Method::Get, path, query, Content::Empty).await.map_err(|trouble| unreachable(&trouble))?;
        let busy = matches!(answer.status, 429 | 500..);
        let answer = accepted(client, answer, "to be asked what it is")
            .map_err(|error| if busy { Error { kind: Kind::Pending, ..error } } else { error })?;
        if client.serverless {
            return Ok(Probe { distribution: "serverless".to_owned(), version: None, cluster: None });
        }
        let greeting: Greeting =
            serde_json::from_slice(&answer.body).map_err(|_| not_opensearch(client, "its answer to / is not OpenSearch's"))?;
        let Version { distribution, number } = greeting.version;
        match distribution {
            Some(distribution) if distribution == "opensearch" => {
                Ok(Probe { distribution, version: Some(number), cluster: greeting.cluster_name })
            }
            Some(other) => Err(not_opensearch(client, &format!("it says that it is {other} {number}"))),
            None => Err(not_opensearch(client, &format!("it says that it is Elasticsearch {number}"))),
        }
    }

    /// Whether the server answers, and knows us. A user who may write and not ask what the server is, is let in.
    pub(super) async fn is_there(&self) -> Result<(), Error> {
        let client = &self.client;
        let path = if client.serverless { "_cat/indices" } else { "/" };
        let answer = client.send(Method::Get, path, &[], Content::Empty).await.map_err(|trouble| unreachable(&trouble))?;
        if matches!(answer.status, 401 | 429 | 500..) { accepted(client, answer, "to be asked what it is").map(drop) } else { Ok(()) }
    }

    /// Makes sure that each index exists, creating the missing ones, and that it has what tombstones need where it gets any. Says what was
    /// done, one line per name, and what is to be known about deletes in those that existed.
    ///
    /// # Errors
    /// [`Kind::Sink`] at the first name that cannot be made.
    pub async fn setup(&self, names: &[&str]) -> Result<(Vec<String>, Vec<Advice>), Error> {
        let (mut done, mut advice) = (Vec::new(), Vec::new());
        let failed = |failure| refused(&self.client, failure);
        for name in names {
            let uses = self.indices.uses(name);
            done.push(match self.indices.ensure(&self.client, name, true).await.map_err(failed)? {
                Found::Created(_) if uses.tombstones => {
                    format!("created index {name}-000001 with write alias {name}, which hides tombstones")
                }
                Found::Created(_) => format!("created index {name}-000001 with write alias {name}"),
                Found::Existed(mut seen) => {
                    let kind = if seen.index.alias { "alias" } else { "index" };
                    advice.extend(self.indices.prepare(&self.client, name, &mut seen, uses).await.map_err(failed)?);
                    format!("{kind} {name} exists and is used as it is")
                }
                Found::Missing => format!("index {name} exists and is used as it is"),
            });
        }
        Ok((done, advice))
    }

    /// What is to be known about deletes in an index, by the rules for it; nothing where the index does not exist. Changes nothing.
    ///
    /// # Errors
    /// [`Kind::Sink`] where the server cannot be reached, or refuses to describe the index.
    pub async fn advice(&self, name: &str) -> Result<Vec<Advice>, Error> {
        let seen = find_index(&self.client, name).await.map_err(|failure| refused(&self.client, failure))?;
        Ok(seen.map(|seen| self.indices.advice(&self.client, name, &seen, self.indices.uses(name), None)).unwrap_or_default())
    }

    /// Tries on a scratch index, whose name begins with `index`, all that delivery needs: create, write with an external version, have an
    /// older version refused, delete with a version. The scratch index is deleted whatever comes of it.
    ///
    /// # Errors
    /// [`Kind::Sink`] with the first thing that is not allowed, or does not hold.
    pub async fn check_rights(&self, index: &str) -> Result<(), Error> {
        // The standard library's hash keys are the one source of chance that needs no crate; two checks at once must not meet.
        let scratch = format!("{index}-revsync-check-{:016x}", RandomState::new().hash_one(std::process::id()));
        let result = self.try_rights(&scratch).await;
        let removed = self.ask(Method::Delete, &segment(&scratch), &[], "", &[404], &format!("to delete index {scratch}")).await;
        result?;
        removed.map(drop)
    }

    async fn try_rights(&self, scratch: &str) -> Result<(), Error> {
        self.ask(Method::Put, &segment(scratch), &[], "{}", &[], &format!("to create index {scratch}")).await?;
        let document = format!("{}/_doc/1", segment(scratch));
        let version = |number| [("version", number), ("version_type", "external")];
        self.ask(Method::Put, &document, &version("2"), "{}", &[], "to write with an external version").await?;
        let older = self.ask(Method::Put, &document, &version("1"), "{}", &[409], "to be asked to write an older version").await?;
        if older.status != 409 {
            return Err(Error::new(
                Kind::Sink,
                format!("{} wrote version 1 over version 2: expected status 409, found {}", self.client.place, older.status),
            )
            .help("external versions do not hold there, so revsync cannot keep it right"));
        }
        self.ask(Method::Delete, &document, &version("3"), "", &[404], "to delete with an external version").await?;
        Ok(())
    }

    /// Sends one request; statuses outside 2xx and `also` are errors.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: &'static str,
        also: &[u16],
        what: &str,
    ) -> Result<Answer, Error> {
        let content = if body.is_empty() { Content::Empty } else { Content::Json(Bytes::from_static(body.as_bytes())) };
        let answer = self.client.send(method, path, query, content).await.map_err(|trouble| unreachable(&trouble))?;
        if also.contains(&answer.status) { Ok(answer) } else { accepted(&self.client, answer, what) }
    }
}

/// An answer with a status of success, or the error that it is. `what` completes "the server does not allow user X …".
pub(super) fn accepted(client: &Client, answer: Answer, what: &str) -> Result<Answer, Error> {
    if answer.is_success() {
        return Ok(answer);
    }
    let Client { place, .. } = client;
    let user = client.proof.user();
    Err(match answer.status {
        401 => Error::new(Kind::Sink, format!("{place} refuses the credentials of {user} (status 401)"))
            .help("check user name and password, or the AWS credentials in use"),
        403 if matches!(client.judged(&answer), Failure::Unauthorized { .. }) => {
            let said = refused(client, client.judged(&answer)).what;
            Error::new(Kind::Sink, format!("{place} does not allow {user} {what}: {said}"))
                .help("give it a role with the rights that revsync setup --help lists")
        }
        404 if answer.error_type().is_none() => not_opensearch(client, "it answers status 404"),
        _ => refused(client, client.judged(&answer)),
    })
}

/// The error of a command for what would be a failure of delivery.
fn refused(client: &Client, failure: Failure) -> Error {
    let what = said(failure);
    if what.contains(&client.place) { Error::new(Kind::Sink, what) } else { Error::new(Kind::Sink, format!("{}: {what}", client.place)) }
}

/// What a server said, as far as it may be told.
pub(super) fn said(failure: Failure) -> String {
    match failure {
        Failure::Retry { what, .. } | Failure::TooLarge { what, .. } | Failure::Unauthorized { what } | Failure::Misconfigured { what } => {
            what
        }
        Failure::Invalid(fault) => fault.reason,
    }
}

fn not_opensearch(client: &Client, why: &str) -> Error {
    Error::new(Kind::Sink, format!("{} is no OpenSearch: {why}", client.shown)).help("check host, port and path prefix of the sink's URL")
}

/// The error for a server that gave no answer, with advice.
pub(super) fn unreachable(trouble: &Trouble) -> Error {
    let help = match trouble.kind {
        TroubleKind::Refused => "is OpenSearch running there? check host and port of the sink's URL",
        TroubleKind::Name => "check the host of the sink's URL, and that this machine can look it up",
        TroubleKind::Tls => "check that the URL's scheme fits the port, and set ca_file for a certificate of your own authority",
        TroubleKind::TimedOut => "check that a firewall or security group lets this machine through",
        TroubleKind::NoCredentials => "set AWS_PROFILE or the AWS_ACCESS_KEY_ID family, or run under a role",
        TroubleKind::Redirected => "use that address as the sink's URL",
        TroubleKind::Broken => "check the server, and what stands in front of it",
    };
    Error::new(Kind::Sink, trouble.what.clone()).help(help)
}
