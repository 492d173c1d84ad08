//! The answer to a `_bulk` request: items matched to the operations that were sent, or what the failure of the whole request means.
//!
//! Pure, and never believes an answer that does not fit: a cut body, another number of items, an item of another action or without a status
//! settle nothing, and the whole request is sent again. Never keeps a reason as the server wrote it ([`redact`](super::redact)).
//! (Shape: OpenSearch Bulk API, under `filter_path=errors,items.*.status,items.*.error`, and `items.update.result` where there are merges.)

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::redact;
use crate::plan::outcome::{Class, Failure, Reply, judge_request};
use crate::record::Fault;

/// The parts of a reply that are asked for; everything else would only be read and thrown away.
pub(super) const FILTER_PATH: &str = "errors,items.*.status,items.*.error";

/// The same for a request with merges: whether one had anything new is not in its status.
pub(super) const FILTER_PATH_OF_MERGES: &str = "errors,items.*.status,items.*.error,items.update.result";

/// The replies of one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replies {
    /// One per operation, in their order.
    pub(super) operations: Vec<Reply>,
    /// Of each guard ([`append_guards`](super::request::append_guards)) the UUID of the index that it reached, in their order.
    pub(super) guards: Vec<Option<String>>,
}

/// Reads the body of a 2xx answer to the actions that were sent: `actions`, and then `guards` updates.
///
/// # Errors
/// [`Failure::Retry`] where the answer does not fit the request, and [`Failure::Misconfigured`] where an item says that all will fail
/// alike.
pub(super) fn parse<'a>(body: &[u8], actions: impl ExactSizeIterator<Item = &'a str>, guards: usize) -> Result<Replies, Failure> {
    let wanted = actions.len() + guards;
    let answer: Answer<'_> = serde_json::from_slice(without_mark(body)).map_err(|error| {
        // serde_json's own text may quote what it found.
        let place = if error.is_eof() { "is cut off" } else { "is not the expected JSON" };
        unmatched(format!("the answer to _bulk {place} at byte {} of {}", error.column(), body.len()))
    })?;
    let items = answer.items.map(|items| items.0).unwrap_or_default();
    if items.len() != wanted {
        return Err(unmatched(format!("expected {wanted} items in the answer to _bulk, found {}", items.len())));
    }
    let mut replies = Replies { operations: Vec::with_capacity(actions.len()), guards: Vec::with_capacity(guards) };
    let mut items = items.into_iter().enumerate();
    for (action, (at, item)) in actions.zip(&mut items) {
        let Some(status) = item.status.filter(|_| item.action == action) else {
            return Err(misfit(at, action, &item));
        };
        let error = match item.error {
            Some(error) => Some(fault(&error)?),
            None => None,
        };
        replies.operations.push(Reply { status, error, noop: item.result.as_deref() == Some("noop") });
    }
    for (at, item) in items {
        if item.action != "update" || item.status.is_none() {
            return Err(misfit(at, "update", &item));
        }
        replies.guards.push(item.error.and_then(|error| error.index_uuid).map(Cow::into_owned));
    }
    Ok(replies)
}

fn unmatched(what: String) -> Failure {
    Failure::Retry { class: Class::Unavailable, what, after: None }
}

fn misfit(at: usize, action: &str, item: &Item<'_>) -> Failure {
    let found = match &*item.action {
        same if same == action => "an item without a status".to_owned(),
        other @ ("index" | "create" | "update" | "delete") => format!("an item of action {other}"),
        // Whatever it is, it came from something that is no bulk answer.
        _ => "an item of no known action".to_owned(),
    };
    unmatched(format!("expected the status of action {action} as item {at} of the answer to _bulk, found {found}"))
}

/// The fault of one item, unless what it says holds for every item.
fn fault(error: &ErrorBody<'_>) -> Result<Fault, Failure> {
    let error = error.of_script();
    match misconfiguration(error) {
        Some(what) => Err(Failure::Misconfigured { what }),
        None => {
            let (kind, reason) = error.shown();
            Ok(Fault { kind, reason })
        }
    }
}

/// Errors that come like those of a single document, but are about how the index or server is set up. The
/// type does not tell them apart, so these texts are the one place where wording decides; an unknown wording only makes them dead letters.
fn misconfiguration(error: &ErrorBody<'_>) -> Option<String> {
    let (kind, reason) = (error.kind.as_deref()?, error.reason.as_deref()?);
    if kind == "script_exception" && reason == "compile error" {
        return Some("the server does not compile the script that merges cells: OpenSearch 2.19 and newer do".to_owned());
    }
    if kind != "illegal_argument_exception" {
        return None;
    }
    if reason.starts_with("cannot execute [") || reason.starts_with("cannot execute scripts using [") {
        return Some(
            "the server does not run the script that merges cells: script.allowed_types has to have inline, and script.allowed_contexts update"
                .to_owned(),
        );
    }
    if reason.starts_with("script_lang not supported") {
        return Some("the server has no Painless, in which merges of cells are written: it takes the module lang-painless".to_owned());
    }
    if reason.starts_with("no write index is defined for alias") {
        let alias = reason.split(['[', ']']).nth(1).unwrap_or_default();
        return Some(format!("alias {alias} has no write index: set is_write_index on one of its indices"));
    }
    if reason.contains("Document ID is not supported") {
        return Some(
            "this collection does not keep document ids; OpenSearch Serverless keeps them only in collections of type SEARCH".to_owned(),
        );
    }
    if reason.starts_with("explicit index in bulk is not allowed") {
        return Some("the server refuses index names inside a _bulk body: set rest.action.multi.allow_explicit_index to true".to_owned());
    }
    None
}

/// What a refused request comes to: an answer with a status outside 2xx.
///
/// `place` names the server, `aws_type` is the header `x-amzn-errortype`, `after` the header `Retry-After` as a wait. Reads both shapes of
/// error, OpenSearch's `{"error":{"type":…}}` and Amazon's `{"message":…}`, and takes text that is neither for what it is: something in
/// between.
pub(super) fn refused(place: &str, status: u16, body: &[u8], aws_type: Option<&str>, after: Option<Duration>) -> Failure {
    let refusal: Refusal<'_> = serde_json::from_slice(without_mark(body)).unwrap_or_default();
    let kind = refusal.kind(aws_type).map(redact::kind);
    let mut what = format!("{place} answered status {status}");
    let mut limit = None;
    if let Some(error) = &refusal.error {
        if let Some(what) = misconfiguration(error) {
            return Failure::Misconfigured { what };
        }
        let (shown, reason) = error.shown();
        what = format!("{what}, {shown}: {reason}");
    } else if let Some(message) = &refusal.message {
        limit = message.strip_prefix("Request size exceeded ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let name = kind.unwrap_or_default();
        let reason = redact::reason(name, message).unwrap_or_else(|| redact::WITHHELD.to_owned());
        what = if name.is_empty() { format!("{what}: {reason}") } else { format!("{what}, {name}: {reason}") };
    } else if !body.is_empty() {
        what = format!("{what} with {} bytes that are not OpenSearch's JSON", body.len());
    }
    match judge_request(status, kind, what, after) {
        Failure::TooLarge { what, .. } => Failure::TooLarge { what, limit },
        failure => failure,
    }
}

/// The `error.type` of a refusal.
pub(super) fn error_type(body: &[u8]) -> Option<String> {
    let refusal: Refusal<'_> = serde_json::from_slice(without_mark(body)).ok()?;
    refusal.error?.kind.map(Cow::into_owned)
}

/// The wait that a `Retry-After` header asks for: seconds, or a date (RFC 9110, section 10.2.3). A date that has passed is no wait. A date
/// is compared with the answer's own `Date`, because the server's clock made both and ours may be off; without that it says nothing.
pub(super) fn retry_after(header: &str, now: Option<SystemTime>) -> Option<Duration> {
    if let Ok(seconds) = header.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    Some(date(header)?.duration_since(now?).unwrap_or_default())
}

/// A time as headers write it (RFC 9110, section 5.6.7).
pub(super) fn date(header: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(header.trim()).ok()
}

/// Whether a refusal may be about the time at which a request was signed. Most of these types say other things as well; whether it is the
/// time, the servers' clock tells.
/// (AWS General Reference, "Common error types"; AWS Signature Version 4, "Troubleshoot signed requests".)
pub(super) fn is_about_time(body: &[u8], aws_type: Option<&str>) -> bool {
    let refusal: Refusal<'_> = serde_json::from_slice(without_mark(body)).unwrap_or_default();
    matches!(
        refusal.kind(aws_type),
        Some(
            "RequestTimeTooSkewed"
                | "RequestExpired"
                | "RequestInTheFuture"
                | "InvalidSignatureException"
                | "SignatureDoesNotMatch"
                | "AuthFailure"
        )
    )
}

/// The type of an AWS error by its text, for the endpoints that give none.
fn told_by_text(message: &str) -> Option<&'static str> {
    let begins = |openings: &[&str]| openings.iter().any(|opening| message.starts_with(opening));
    if begins(&["Signature expired", "Signature not yet current"]) {
        return Some("InvalidSignatureException");
    }
    begins(&["The security token included in the request is expired"]).then_some("ExpiredTokenException")
}

/// A body without the byte order mark that some proxies put in front.
fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    items: Option<Items<'a>>,
}

struct Items<'a>(Vec<Item<'a>>);

struct Item<'a> {
    action: Cow<'a, str>,
    status: Option<u16>,
    result: Option<Cow<'a, str>>,
    error: Option<ErrorBody<'a>>,
}

#[derive(Deserialize)]
struct ItemBody<'a> {
    status: Option<u16>,
    #[serde(borrow)]
    result: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<ErrorBody<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal<'a> {
    #[serde(borrow)]
    error: Option<ErrorBody<'a>>,
    #[serde(borrow, alias = "Message")]
    message: Option<Cow<'a, str>>,
    /// The type of an AWS error, where it stands in the body.
    #[serde(borrow, rename = "__type")]
    aws_type: Option<Cow<'a, str>>,
}

impl Refusal<'_> {
    /// The type of the error: OpenSearch's; or that of AWS in a header, in the body, or as its text tells it.
    fn kind<'b>(&'b self, header: Option<&'b str>) -> Option<&'b str> {
        /// A namespace may stand before it, and a URL behind.
        fn bare(kind: &str) -> &str {
            let kind = kind.split(':').next().unwrap_or_default();
            kind.rsplit('#').next().unwrap_or_default()
        }
        if let Some(error) = &self.error {
            return error.kind.as_deref();
        }
        let told = || self.message.as_deref().and_then(told_by_text);
        header.map(bare).or_else(|| self.aws_type.as_deref().map(bare)).or_else(told)
    }
}

/// An error as OpenSearch writes it. Servers and proxies also write a bare text in its place; that is kept as a reason without a type.
#[derive(Default)]
struct ErrorBody<'a> {
    kind: Option<Cow<'a, str>>,
    reason: Option<Cow<'a, str>>,
    index_uuid: Option<Cow<'a, str>>,
    caused_by: Option<Box<ErrorBody<'a>>>,
}

impl ErrorBody<'_> {
    /// What went wrong with a script, or with running it at all, is the cause of an error that is always the same.
    fn of_script(&self) -> &Self {
        match &self.caused_by {
            Some(cause) if self.reason.as_deref() == Some("failed to execute script") => cause,
            _ => self,
        }
    }

    /// Type and reason as they may be shown, with the cause's type, and the cause's reason where that is safe.
    fn shown(&self) -> (String, String) {
        let kind = redact::kind(self.kind.as_deref().unwrap_or_default()).to_owned();
        let mut reason = self.reason.as_deref().and_then(|text| redact::reason(&kind, text)).unwrap_or_else(|| redact::WITHHELD.to_owned());
        if let Some(cause) = &self.caused_by {
            let cause_kind = redact::kind(cause.kind.as_deref().unwrap_or_default());
            match cause.reason.as_deref().and_then(|text| redact::reason(cause_kind, text)) {
                Some(text) => reason.push_str(&format!(" ({cause_kind}: {text})")),
                None => reason.push_str(&format!(" ({cause_kind})")),
            }
        }
        (kind, reason)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ErrorBody<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = ErrorBody<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an error object or a text")
            }
            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(ErrorBody::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut error = ErrorBody::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match &*key.0 {
                        "type" => error.kind = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0),
                        "reason" => error.reason = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0),
                        "index_uuid" => error.index_uuid = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0),
                        "caused_by" => error.caused_by = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(error)
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

/// A string that is borrowed from the body unless it holds escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of items")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::with_capacity(list.size_hint().unwrap_or(0));
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Item<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item of one action")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let Some((action, body)) = map.next_entry::<Text<'de>, ItemBody<'de>>()? else {
                    return Ok(Item { action: Cow::Borrowed(""), status: None, result: None, error: None });
                };
                match map.next_key::<IgnoredAny>()? {
                    Some(_) => Err(serde::de::Error::custom("an item of two actions")),
                    None => Ok(Item { action: action.0, status: body.status, result: body.result, error: body.error }),
                }
            }
        }
        deserializer.deserialize_map(One)
    }
}

#[cfg(test)]
mod tests;
