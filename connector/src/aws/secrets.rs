//! A user name and a password from AWS Secrets Manager.
//!
//! Takes what AWS's own rotation functions write: an object with `password` and perhaps `username`; or the password and nothing else. Reads
//! once for each call, and never shows a value, not even of the wrong form.

use std::fmt;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::Builder;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use serde_json::Value;

use super::{Aws, code, retries, why};
use crate::error::{Error, Kind};

/// How long one attempt to read a secret may take.
const ATTEMPT: Duration = Duration::from_secs(3);
/// How long all of them may take.
const CALL: Duration = Duration::from_secs(8);
/// What to do where no region is known.
const NO_REGION: &str = "name the secret by its ARN, which has the region, or set AWS_REGION";
/// The rights that it takes.
const RIGHTS: &str = "the right is secretsmanager:GetSecretValue on the secret, and kms:Decrypt on its key where that is one of your own";
/// What is expected in a secret.
const FORM: &str = "expected the password as text, or a JSON object with the texts \"password\" and, if it likes, \"username\"";

/// A secret, and the means to read it.
#[derive(Debug)]
pub(crate) struct StoredSecret {
    client: Client,
    /// Its ARN or its name.
    id: String,
}

/// What a secret holds. Shows nothing of it.
pub(crate) struct Login {
    /// The user name, where the secret has one.
    pub(crate) username: Option<String>,
    /// The password.
    pub(crate) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(***)")
    }
}

impl StoredSecret {
    /// Makes the client, in the region of the ARN or else of the AWS environment, with the credentials of the AWS environment. Sends nothing.
    ///
    /// # Errors
    /// [`Kind::Usage`] where no region is known, or no source of credentials.
    pub(crate) async fn find(id: &str) -> Result<Self, Error> {
        let aws = Aws { region: region(id).map(str::to_owned), assume_role_arn: None };
        let sdk = aws.load(None, NO_REGION).await?;
        // The time of a Lambda function's start is 10 s; it has to say something before.
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT).operation_timeout(CALL).build();
        let config = Builder::from(&sdk).timeout_config(timeouts).retry_config(retries());
        Ok(Self { client: Client::from_conf(config.build()), id: id.to_owned() })
    }

    /// Reads what the secret holds now.
    ///
    /// # Errors
    /// [`Kind::Usage`] where it does not exist, may not be read or is of another form; [`Kind::Sink`] where Secrets Manager does not answer.
    pub(crate) async fn read(&self) -> Result<Login, Error> {
        let answer = self.client.get_secret_value().secret_id(&self.id).send().await;
        let answer = answer.map_err(|error| {
            let kind = if error.as_service_error().is_some_and(is_for_a_person) { Kind::Usage } else { Kind::Sink };
            let denied = code(&error).is_some_and(|code| code.contains("AccessDenied"));
            let found = self.error(kind, &format!("cannot be read: {}", why(error)));
            if denied { found.help(RIGHTS) } else { found }
        })?;
        let text = answer.secret_string().ok_or_else(|| self.error(Kind::Usage, &format!("{FORM}; found bytes")))?;
        login(text).map_err(|found| self.error(Kind::Usage, &format!("{FORM}; found {found}")))
    }

    fn error(&self, kind: Kind, what: &str) -> Error {
        Error::new(kind, format!("password_secret {}: {what}", self.id))
    }
}

/// Whether what Secrets Manager says is for a person to put right, and not an outage of its.
fn is_for_a_person(error: &impl ProvideErrorMetadata) -> bool {
    !error.code().is_none_or(|code| code.contains("InternalService") || code.contains("Throttling") || code.contains("Unavailable"))
}

/// The region of a secret's ARN, `arn:PARTITION:secretsmanager:REGION:ACCOUNT:secret:NAME`.
fn region(id: &str) -> Option<&str> {
    match id.splitn(6, ':').collect::<Vec<_>>()[..] {
        ["arn", _, "secretsmanager", region, _, _] if !region.is_empty() => Some(region),
        _ => None,
    }
}

/// What a secret's text says; of what it is not, in words that go on from "found".
fn login(text: &str) -> Result<Login, &'static str> {
    let (username, password) = match serde_json::from_str(text) {
        Ok(Value::Object(members)) => {
            let password = match members.get("password") {
                Some(Value::String(password)) => password.clone(),
                Some(_) => return Err("an object whose \"password\" is no text"),
                None => return Err("an object without \"password\""),
            };
            match members.get("username") {
                None | Some(Value::Null) => (None, password),
                Some(Value::String(username)) => (Some(username.clone()), password),
                Some(_) => return Err("an object whose \"username\" is no text"),
            }
        }
        _ => (None, text.trim_end_matches(['\r', '\n']).to_owned()),
    };
    if password.is_empty() { Err("an empty password") } else { Ok(Login { username, password }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_that_of_the_arn() {
        assert_eq!(region("arn:aws:secretsmanager:eu-west-1:123456789012:secret:search-AbCdEf"), Some("eu-west-1"));
        assert_eq!(region("arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret:a:b"), Some("cn-north-1"));
        for other in ["search", "arn:aws:secretsmanager::1:secret:x", "arn:aws:ssm:eu-west-1:1:parameter/x", "prod/search:x"] {
            assert_eq!(region(other), None, "{other}");
        }
    }

    #[test]
    fn a_secret_is_a_password_or_an_object_that_has_one() {
        let read = |text: &str| login(text).map(|login| (login.username, login.password));
        let plain = |password: &str| Ok((None, password.to_owned()));
        assert_eq!(read("hunter2\n"), plain("hunter2"));
        assert_eq!(read("12345"), plain("12345"));
        assert_eq!(read("{hunter2"), plain("{hunter2"));
        assert_eq!(read("\"quoted\""), plain("\"quoted\""));
        assert_eq!(read(r#"{"password":"p\n"}"#), plain("p\n"));
        let rotated = r#"{"engine":"x","host":"h","port":443,"username":"ann","password":"p"}"#;
        assert_eq!(read(rotated), Ok((Some("ann".to_owned()), "p".to_owned())));
        for text in
            ["", "\n", "{}", r#"{"Password":"hunter2"}"#, r#"{"password":12345}"#, r#"{"password":""}"#, r#"{"password":"p","username":1}"#]
        {
            assert!(read(text).is_err_and(|found| !found.contains("hunter2") && !found.contains("12345")), "{text}");
        }
        assert!(!format!("{:?}", login("hunter2")).contains("hunter2"));
    }
}
