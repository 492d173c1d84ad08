//! A client of librdkafka: its configuration, what it says, and its tokens for IAM at Amazon MSK.
//!
//! What librdkafka logs and what goes wrong with it becomes a line of the log here, without secrets. Reads and writes no topic.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_types::SdkConfig;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use rdkafka::statistics::Statistics;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{Properties, is_secret};
use crate::aws::Aws;
use crate::error::Error;

/// Properties that a person does not set, and why.
const OWNED: [(&str, &str); 11] = [
    ("bootstrap.servers", "the servers stand in the kafka:// URL"),
    ("metadata.broker.list", "the servers stand in the kafka:// URL"),
    ("group.id", "the group is named with --group"),
    ("enable.auto.commit", "revsync commits an offset when everything before it is settled"),
    ("auto.commit.enable", "revsync commits an offset when everything before it is settled"),
    ("auto.commit.interval.ms", "revsync commits an offset when everything before it is settled"),
    ("enable.auto.offset.store", "revsync commits an offset when everything before it is settled"),
    (
        "auto.offset.reset",
        "start says where a partition begins, and an offset that is out of range is data loss, which on_data_loss is for",
    ),
    ("enable.partition.eof", "revsync needs it to know the end of a partition"),
    ("statistics.interval.ms", "revsync tells how things stand by itself"),
    ("transactional.id", "revsync writes without transactions"),
];

/// How long a token may take; librdkafka asks again where there is none.
const TOKEN_WITHIN: Duration = Duration::from_secs(30);

/// The configuration of a client of these servers: `own` properties, with those that a person gave over them.
///
/// # Errors
/// A property that revsync sets itself, one that librdkafka does not know, or a value that it does not take; named, but without its value where
/// that may be a secret.
pub fn config(servers: &str, properties: &Properties, own: &[(&str, &str)]) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info).set("bootstrap.servers", servers).set("client.id", "revsync");
    for (key, value) in own {
        config.set(*key, *value);
    }
    for (key, value) in &properties.0 {
        if let Some((_, why)) = OWNED.iter().find(|(owned, _)| owned == key) {
            return Err(Error::usage(format!("the property {key} of the Kafka client cannot be set: {why}")));
        }
        config.set(key, value);
    }
    match config.create_native_config() {
        Ok(_) => Ok(config),
        Err(error) => Err(refused(&error)),
    }
}

/// The error of a configuration that librdkafka does not take.
pub fn refused(error: &KafkaError) -> Error {
    let what = match error {
        KafkaError::ClientConfig(_, _, key, _) if is_secret(key) => format!("the property {key} of the Kafka client is not accepted"),
        KafkaError::ClientConfig(_, why, key, _) => format!("the property {key} of the Kafka client is not accepted: {why}"),
        KafkaError::ClientCreation(why) => format!("the properties of the Kafka client do not go together: {why}"),
        error => format!("the properties of the Kafka client are not accepted: {}", why(error)),
    };
    Error::usage(what).help("their names and values are those of librdkafka, CONFIGURATION.md")
}

/// What an error says, in librdkafka's words.
pub fn why(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        // "Code (Where: words)".
        Some(code) => {
            let text = code.to_string();
            text.split_once('(').map_or(text.clone(), |(_, words)| words.trim_end_matches(')').to_owned())
        }
        None => error.to_string(),
    }
}

/// What a client has beside its configuration; share it between clients of the same servers.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

struct Shared {
    /// Values that no line may show.
    secrets: Vec<String>,
    signer: Option<Signer>,
    trouble: Mutex<Option<Trouble>>,
}

/// What went wrong last with a client as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whether it is about who we are, which a person has to put right.
    pub is_refusal: bool,
    /// In librdkafka's words.
    pub what: String,
}

/// What signs tokens for IAM at Amazon MSK.
struct Signer {
    sdk: SdkConfig,
    runtime: Handle,
}

impl Context {
    /// The context of a client with these properties. Where they ask for OAUTHBEARER and do not say where its tokens come from, they come from
    /// the credentials of `aws`, as IAM at Amazon MSK takes them; called in a runtime, then, which makes the tokens as long as the client lives.
    ///
    /// # Errors
    /// Tokens come from AWS, and no region or no source of credentials is known.
    pub async fn new(properties: &Properties, aws: &Aws) -> Result<Self, Error> {
        let signer = match signs(properties) {
            true => Some(Signer { sdk: aws.load(None, "set region under [source.aws], or AWS_REGION").await?, runtime: Handle::current() }),
            false => None,
        };
        let secrets = properties.0.iter().filter(|(key, value)| is_secret(key) && !value.is_empty()).map(|(_, value)| value.clone());
        Ok(Self(Arc::new(Shared { secrets: secrets.collect(), signer, trouble: Mutex::default() })))
    }

    /// What went wrong last, since it was forgotten: librdkafka says a thing once, and is silent while it goes on.
    pub fn trouble(&self) -> Option<Trouble> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It works again.
    pub fn forget_trouble(&self) {
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A text without what is secret.
    fn clean(&self, text: &str) -> String {
        self.0.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("signs", &self.0.signer.is_some()).finish_non_exhaustive()
    }
}

/// Whether tokens are made here: OAUTHBEARER, and nothing that says how else they come.
fn signs(properties: &Properties) -> bool {
    let mechanism = ["sasl.mechanisms", "sasl.mechanism"].into_iter().find_map(|key| properties.0.get(key));
    let otherwise = |key: &String| key.starts_with("sasl.oauthbearer.") || key.starts_with("enable.sasl.oauthbearer.");
    mechanism.is_some_and(|mechanism| mechanism.eq_ignore_ascii_case("OAUTHBEARER")) && !properties.0.keys().any(otherwise)
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        let text = self.clean(text);
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => tracing::error!(facility, "Kafka: {text}"),
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => tracing::warn!(facility, "Kafka: {text}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(facility, "Kafka: {text}"),
            RDKafkaLogLevel::Debug => tracing::debug!(facility, "Kafka: {text}"),
        }
    }

    fn stats(&self, _: Statistics) {}

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let refusals = [
            RDKafkaErrorCode::Authentication,
            RDKafkaErrorCode::SaslAuthenticationFailed,
            RDKafkaErrorCode::TopicAuthorizationFailed,
            RDKafkaErrorCode::GroupAuthorizationFailed,
            RDKafkaErrorCode::ClusterAuthorizationFailed,
            RDKafkaErrorCode::SSL,
        ];
        let is_refusal = error.rdkafka_error_code().is_some_and(|code| refusals.contains(&code));
        let what = self.clean(if reason.is_empty() { error.to_string() } else { reason.to_owned() }.as_str());
        tracing::debug!("Kafka: {what}");
        let mut trouble = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        // "All brokers are down" follows every reason, and says less.
        let says_less = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        if trouble.as_ref().is_none_or(|before| is_refusal || !says_less && !before.is_refusal) {
            *trouble = Some(Trouble { is_refusal, what });
        }
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        let signer = self.0.signer.as_ref().ok_or("no source of tokens for OAUTHBEARER is configured")?;
        // Called by the thread that polls the client, which is none of the runtime's.
        let (token, lifetime_ms) = signer.runtime.block_on(signer.token())?;
        Ok(OAuthToken { token, principal_name: "revsync".to_owned(), lifetime_ms })
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {}
}

impl Signer {
    async fn token(&self) -> Result<(String, i64), Box<dyn StdError>> {
        let region = self.sdk.region().cloned().ok_or("the AWS region is not known")?;
        let credentials = self.sdk.credentials_provider().ok_or("there is no source of AWS credentials")?;
        let made = aws_msk_iam_sasl_signer::generate_auth_token_from_credentials_provider(region, credentials);
        Ok(timeout(TOKEN_WITHIN, made).await.map_err(|_| "AWS credentials took too long")??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> Properties {
        Properties(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_person_s_properties_come_over_our_own() {
        let made = config("h:9092", &properties(&[("isolation.level", "read_uncommitted")]), &[("isolation.level", "read_committed")]);
        assert_eq!(made.unwrap().get("isolation.level"), Some("read_uncommitted"));
    }

    #[test]
    fn a_property_that_is_ours_or_unknown_or_wrong_is_refused_by_its_name() {
        for (key, value, expected) in [
            ("group.id", "x", "the group is named with --group"),
            ("enable.auto.commit", "true", "everything before it is settled"),
            ("auto.offset.reset", "latest", "on_data_loss"),
            ("fetch.max.byte", "1", "fetch.max.byte"),
            ("fetch.max.bytes", "many", "fetch.max.bytes"),
        ] {
            let error = config("h:9092", &properties(&[(key, value)]), &[]).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_secret_is_in_no_error() {
        let error = config("h:9092", &properties(&[("ssl.key.pem", "hunter2"), ("ssl.key.pasword", "hunter2")]), &[]).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn a_secret_is_in_no_line_of_the_log() {
        let context = Context::new(&properties(&[("sasl.password", "hunter2"), ("sasl.username", "ann")]), &Aws::default()).await.unwrap();
        context.error(KafkaError::Global(RDKafkaErrorCode::Authentication), "ann was refused with hunter2");
        context.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        let trouble = Trouble { is_refusal: true, what: "ann was refused with …".to_owned() };
        assert_eq!(context.trouble(), Some(trouble));
        context.forget_trouble();
        assert_eq!(context.trouble(), None);
    }

    #[test]
    fn tokens_are_made_here_where_nothing_else_makes_them() {
        assert!(signs(&properties(&[("sasl.mechanisms", "OAUTHBEARER")])));
        assert!(signs(&properties(&[("sasl.mechanism", "OAUTHBEARER")])));
        assert!(!signs(&properties(&[("sasl.mechanisms", "OAUTHBEARER"), ("sasl.oauthbearer.config", "principal=ann")])));
        assert!(!signs(&properties(&[("sasl.mechanisms", "SCRAM-SHA-512")])));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_token_for_msk_is_a_signed_request_that_names_the_region_and_ends() {
        let keys = aws_credential_types::Credentials::from_keys("AKIDEXAMPLE", "hunter2", None);
        let given = aws_credential_types::provider::SharedCredentialsProvider::new(keys);
        let aws = Aws { region: Some("eu-west-1".to_owned()), assume_role_arn: None };
        let sdk = aws.load(Some(&given), "").await.unwrap();
        let signer = Signer { sdk, runtime: Handle::current() };
        let context = Context(Arc::new(Shared { secrets: Vec::new(), signer: Some(signer), trouble: Mutex::default() }));
        let made = std::thread::spawn(move || context.generate_oauth_token(None).map_err(|error| error.to_string()));
        let made = tokio::task::spawn_blocking(|| made.join().unwrap()).await.unwrap().unwrap();
        let url = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, &made.token).unwrap();
        let url = String::from_utf8(url).unwrap();
        assert!(url.contains("kafka.eu-west-1.amazonaws.com") && url.contains("kafka-cluster%3AConnect"), "{url}");
        assert!(!url.contains("hunter2") && made.lifetime_ms > 0);
    }
}
