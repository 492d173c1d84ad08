//! What is never told, by any command at any level of the log: a value of a document, and a secret.
//!
//! The real command runs over marked values and secrets, against servers that quote in their reasons whatever they are given. Its outputs and
//! its dead letters are searched whole; only a letter's payload may hold what the record held.

use opensearch::http::Method;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::live::{ask, name};
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::services;

/// What stands in every value below, and the forms in which servers and encoders give it back.
const MARKS: [&str; 7] = ["quokkazz", "cXVva2thenp", "90817263544", "9.081726", "7351-09-23", "113, 117, 111, 107", "71 75 6F 6B"];

/// A document of nothing but marked values.
const DATA: &str = r#"{Name:"quokkazz",Nested:{Deep:[{Text:"a quokkazz b"},["quokkazz"]]},Amount:90817263544,Price:90817263544.25,Rate:90817263544e0,
                       Born:7351-09-23T,Symbol:'quokkazz',Blob:{{cXVva2thenp6}},Clob:{{"quokkazz"}},Noted:quokkazz::true}"#;

/// The environments in which each command is tried: quiet, and with all that can be heard.
const LEVELS: [&[(&str, &str)]; 4] =
    [&[], &[("REVSYNC_VERBOSE", "3")], &[("RUST_LOG", "debug")], &[("RUST_LOG", "trace"), ("LOG_SIGNABLE_BODY", "true")]];

fn assert_untold(what: &str, said: &str, marks: &[&str]) {
    let said = said.to_lowercase();
    for mark in marks {
        if let Some(at) = said.find(&mark.to_lowercase()) {
            let from = said.floor_char_boundary(at.saturating_sub(300));
            let to = said.ceil_char_boundary((at + 300).min(said.len()));
            panic!("{what} tells {mark}: …{}…", &said[from..to]);
        }
    }
}

/// Checks what a command said and what the letters of its folder say beside their payloads; gives their number.
fn assert_silent(what: &str, done: &Done, folder: &Folder) -> usize {
    assert_untold(&format!("{what} on standard output"), &done.out, &MARKS);
    assert_untold(&format!("{what} on standard error"), &done.err, &MARKS);
    let letters = letters(folder);
    for letter in &letters {
        assert_untold(&format!("a letter of {what}"), &letter.to_string(), &MARKS);
    }
    letters.len()
}

/// The letters of the folder without their payloads.
fn letters(folder: &Folder) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("revsync-dead-letters.jsonl")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let mut letter: Value = serde_json::from_str(line).unwrap();
            letter.as_object_mut().unwrap().remove("payload").expect("a letter has a payload");
            letter
        })
        .collect()
}

/// One more reason that quotes a document, as item of a bulk answer.
fn refusal(status: u16, kind: &str, reason: &str, cause: Option<(&str, &str)>) -> Value {
    let mut error = json!({ "type": kind, "reason": reason, "index": "t", "shard": "0" });
    if let Some((kind, reason)) = cause {
        error["caused_by"] = json!({ "type": kind, "reason": reason, "caused_by": { "type": "parse_exception", "reason": "quokkazz" } });
    }
    json!({ "index": { "status": status, "error": error } })
}

/// Refusals of single documents, in the words of real servers and in words that none has used yet.
fn refusals() -> Vec<Value> {
    let immense = "Document contains at least one immense term in field=\"Name\" (whose UTF8 encoding is longer than the max length 32766), all \
                   of which were skipped.  Please correct the analyzer to not produce such terms.  The prefix of the first immense term is: \
                   '[113, 117, 111, 107, 107, 97, 122, 122]...', original message: bytes can be at most 32766 in length; got 40000";
    let shard = "[t][0] primary shard is not active Timeout: [1m], request: [BulkShardRequest [[t][0]] containing [index {[t][4], \
                 source[{\"Name\":\"quokkazz\"}]}]]";
    let rejected = "rejected execution of processing of [12][indices:data/write/bulk[s][p]]: request: BulkShardRequest [[t][0]] containing \
                    [index {[t][5], source[{\"Name\":\"quokkazz\"}]}], target allocation id: x";
    let preview = "failed to parse field [Name] of type [long] in document with id '0'. Preview of field's value: 'quokkazz'";
    vec![
        refusal(400, "mapper_parsing_exception", preview, Some(("illegal_argument_exception", "For input string: \"quokkazz\""))),
        refusal(400, "mapper_parsing_exception", "failed to parse", Some(("illegal_argument_exception", "quokkazz is no number"))),
        refusal(
            400,
            "mapper_parsing_exception",
            "failed to parse field [Born] of type [date] in document with id '2'. Preview of field's value: '{Text=quokkazz}'",
            Some((
                "illegal_argument_exception",
                "failed to parse date field [quokkazz] with format [strict_date_optional_time||epoch_millis]",
            )),
        ),
        refusal(400, "illegal_argument_exception", "failed to parse date field [7351-09-23] with format [epoch_millis]", None),
        refusal(503, "unavailable_shards_exception", shard, None),
        refusal(429, "rejected_execution_exception", rejected, None),
        refusal(400, "illegal_argument_exception", immense, Some(("max_bytes_length_exceeded_exception", "got quokkazz"))),
        refusal(
            400,
            "strict_dynamic_mapping_exception",
            "mapping set to strict, dynamic introduction of [Name] within [_doc] is not allowed",
            None,
        ),
        refusal(
            400,
            "document_parsing_exception",
            "[1:12] failed to parse field [Name] of type [long]. Preview of field's value: 'quokkazz'",
            None,
        ),
        refusal(400, "illegal_argument_exception", "Index 90817263544 out of bounds for length 3", None),
        refusal(
            400,
            "mapper_parsing_exception",
            "object mapping for [Nested] tried to parse field [Deep] as object, but found a concrete value",
            Some(("x_content_parse_exception", "[1:7] [quokkazz] unknown field")),
        ),
        refusal(
            400,
            "illegal_argument_exception",
            "Numeric value (90817263544) out of range of int (-2147483648 - 2147483647)\n at [Source: (byte[])\"{\"Name\":\"quokkazz\"}\"; line: 1]",
            None,
        ),
        refusal(500, "quokkazz exception of quokkazz", "quokkazz", None),
        refusal(500, "surprising_exception", "quokkazz", None),
        json!({ "index": { "status": 400, "error": "MapperParsingException[quokkazz]" } }),
    ]
}

/// Answers to whole requests that quote what was sent, or are nothing that can be understood.
fn answers() -> Vec<Step> {
    let quoting = |status: u16| {
        let error = json!({ "type": "illegal_argument_exception", "reason": "found extra data: quokkazz", "root_cause": [{ "reason": "quokkazz" }] });
        Step::status(status, &json!({ "error": error, "status": status }).to_string())
    };
    vec![
        Step::status(429, "quokkazz").header("retry-after", "0"),
        Step::status(503, r#"<html>{"Name":"quokkazz"}</html>"#),
        quoting(500),
        quoting(400),
        Step::status(
            403,
            r#"{"message":"quokkazz","error":{"type":"cluster_block_exception","reason":"blocked by: [FORBIDDEN/8/index write (api)];"}}"#,
        ),
        Step::without_writing(Fate::Say(r#"{"Name":"quokkazz"}"#.to_owned())),
        Step::without_writing(Fate::Say("quokkazz".to_owned())),
        Step::without_writing(Fate::Say(r#"{"items":[{"quokkazz":{"status":201}}]}"#.to_owned())),
        Step::status(413, "quokkazz"),
    ]
}

/// Runs the command without keeping the scripted server from answering.
async fn run(folder: &std::sync::Arc<Folder>, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
    let owned = |text: &&str| (*text).to_owned();
    let arguments: Vec<String> = arguments.iter().map(owned).collect();
    let environment: Vec<(String, String)> = environment.iter().map(|(name, value)| (owned(name), owned(value))).collect();
    let folder = folder.clone();
    let done = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        folder.revsync_with(&arguments, &environment, b"")
    });
    done.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_document_is_told_whatever_a_server_says() {
    for environment in LEVELS {
        for gzip in [&["--no-gzip"][..], &[]] {
            let server = Scripted::start().await;
            server.add_index("t-000001", Some("t"));
            let refusals = refusals();
            let answer = json!({ "took": 1, "errors": true, "items": refusals }).to_string();
            server.script([Step::without_writing(Fate::Say(answer))]);
            server.script(answers());
            let folder = std::sync::Arc::new(Folder::new());
            let records: String = (0..refusals.len()).map(|id| revision("T", &id.to_string(), 0, Some(DATA))).collect();
            // And records that never come to a server: garbage, and a revision that cannot be used.
            let garbage = "{recordType:\"REVISION_DETAILS\",payload:{tableInfo:{tableName:\"T\"},revision:{data:\"quokkazz\",metadata:{id:\"g\",version:quokkazz}}}}\n";
            folder.write("s.ion", format!("{garbage}{records}{{quokkazz:[\"quokkazz\""));

            let url = server.url();
            let done = run(&folder, &[&["--json", "sync", "s.ion", "--to", url.as_str()], gzip].concat(), environment).await;
            assert_silent("sync", &done, &folder);
            assert!(
                !server.bulks().is_empty() && server.bulks()[0].body.windows(8).any(|bytes| bytes == b"quokkazz"),
                "it was sent: {done:?}"
            );
            let letters = letters(&folder);
            assert!(letters.len() >= 10, "{} letters: {done:?}", letters.len());
            let told = letters.iter().any(|letter| letter["error"]["reason"].as_str().unwrap().contains("failed to parse field [Name]"));
            assert!(told, "what helps is told: {letters:?}");

            for arguments in [&["dead-letters", "list"][..], &["--json", "dead-letters", "list"]] {
                assert_silent("dead-letters list", &run(&folder, arguments, environment).await, &folder);
            }
            for letter in &letters {
                let id = letter["id"].as_str().unwrap();
                assert_silent("dead-letters show", &run(&folder, &["dead-letters", "show", id], environment).await, &folder);
            }
            server.script(answers());
            for arguments in [
                [&["dead-letters", "replay", "--all", "--to", url.as_str()], gzip].concat(),
                vec!["check", "s.ion", "--to", url.as_str()],
                vec!["setup", "t", "--to", url.as_str()],
                vec!["mapping", "s.ion"],
            ] {
                assert_silent(arguments[0], &run(&folder, &arguments, environment).await, &folder);
            }
        }
    }
}

/// Types of fields, with a value that each of them takes.
const TYPES: [(&str, &str); 26] = [
    ("long", "1"),
    ("integer", "1"),
    ("short", "1"),
    ("byte", "1"),
    ("unsigned_long", "1"),
    ("double", "1.5"),
    ("float", "1.5"),
    ("half_float", "1.5"),
    ("scaled_float", "1.5"),
    ("boolean", "true"),
    ("date", "\"2024-05-06\""),
    ("date_nanos", "\"2024-05-06\""),
    ("ip", "\"127.0.0.1\""),
    ("keyword", "\"a\""),
    ("text", "\"a\""),
    ("wildcard", "\"a\""),
    ("match_only_text", "\"a\""),
    ("binary", "\"aGVsbG8=\""),
    ("geo_point", "{lat:1,lon:1}"),
    ("geo_shape", "{type:\"Point\",coordinates:[1,1]}"),
    ("integer_range", "{gte:1,lte:2}"),
    ("date_range", "{gte:\"2024-05-06\"}"),
    ("ip_range", "\"10.0.0.0/8\""),
    ("object", "{a:1}"),
    ("nested", "{a:1}"),
    ("completion", "\"a\""),
];

/// Values that some of the types refuse.
fn bad_values() -> Vec<String> {
    let mut values: Vec<String> = [
        "\"quokkazz\"",
        "90817263544",
        "90817263544.25",
        "-90817263544e300",
        "7351-09-23T",
        "[1,\"quokkazz\"]",
        "[[\"quokkazz\"]]",
        "{lat:90817263544,lon:\"quokkazz\"}",
        "{gte:\"quokkazz\",lte:90817263544}",
        "{type:\"quokkazz\",coordinates:[90817263544]}",
        "{input:[90817263544],weight:\"quokkazz\"}",
        "{a:{b:\"quokkazz\"}}",
        "true",
    ]
    .map(str::to_owned)
    .to_vec();
    values.push(format!("\"{}\"", "quokkazz".repeat(5_000)));
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_document_is_told_by_what_real_servers_say_of_it() {
    for server in services::opensearch() {
        let (folder, prefix) = (std::sync::Arc::new(Folder::new()), name("privacy"));
        folder.write("rules.toml", format!("[[table]]\nname = \"*\"\nindex = \"{prefix}-{{table}}\"\n"));
        let mut records = String::new();
        let (mut known, values) = (0, bad_values());
        for (kind, good) in TYPES {
            let mapping = if kind == "scaled_float" { json!({"type": kind, "scaling_factor": 100}) } else { json!({ "type": kind }) };
            let body = json!({ "mappings": { "dynamic": "strict", "properties": { "f": mapping, "a": { "type": "long" } } } });
            // Some types come with modules that a bare server lacks.
            if ask(server, Method::Put, &format!("{prefix}-t_{kind}"), body).await.0 != 200 {
                continue;
            }
            known += 1;
            records.push_str(&revision(&format!("t_{kind}"), "good", 0, Some(&format!("{{f:{good}}}"))));
            for (at, value) in values.iter().enumerate() {
                records.push_str(&revision(&format!("t_{kind}"), &at.to_string(), 0, Some(&format!("{{f:{value}}}"))));
            }
            records.push_str(&revision(&format!("t_{kind}"), "strict", 0, Some("{unknown:\"quokkazz\"}")));
        }
        folder.write("s.ion", records);
        let common = ["--config", "rules.toml", "--json", "-vvv"];
        let sync = [&common[..], &["sync", "s.ion", "--to", &server.url]].concat();
        let done = run(&folder, &sync, &[("RUST_LOG", "trace")]).await.balanced();
        let letters = assert_silent(&format!("sync into {}", server.name), &done, &folder);
        assert!(letters > 150, "{} refuses {letters} of these documents", server.name);
        assert_eq!((done.count("dead_letters") as usize, done.count("pending")), (letters, 0), "{done:?}");
        assert!(known >= 20 && done.count("indexed") > known, "{known} types: {done:?}");

        let replay = [&common[..], &["dead-letters", "replay", "--all", "--to", &server.url]].concat();
        assert_silent("replay", &run(&folder, &replay, &[("RUST_LOG", "trace")]).await, &folder);
        assert_silent("list", &folder.revsync(&["dead-letters", "list"]), &folder);
    }
}

// Secrets

/// A password with everything in it that has to be escaped somewhere, and the forms in which it could be told.
const PASSWORD: &str = "hunter2 +%/@:é";
const PASSWORD_FORMS: [&str; 4] = ["hunter2", "aHVudGVyM", "h1bnRlcj", "odW50ZXIy"];

/// Runs commands against a server and checks that neither a secret nor a value is told by any of them at any level.
async fn assert_secrets_kept(
    folder: &std::sync::Arc<Folder>,
    global: &[&str],
    sink: &[&str],
    environment: &[(&str, &str)],
    secrets: &[&str],
) {
    folder.write("s.ion", revision("T", "a", 0, Some(DATA)));
    for level in LEVELS {
        let environment = [environment, level].concat();
        for command in [
            &["sync", "s.ion", "--give-up-after", "1s"][..],
            &["check", "s.ion"],
            &["setup", "t"],
            &["search", "nothing"],
            &["dead-letters", "replay", "--all"],
        ] {
            let arguments = [global, command, sink].concat();
            let done = run(folder, &arguments, &environment).await;
            assert!(!done.err.contains("unexpected argument"), "{done:?}");
            for (stream, said) in [("output", &done.out), ("error", &done.err)] {
                assert_untold(&format!("{arguments:?} on standard {stream}"), said, &[secrets, &MARKS].concat());
            }
        }
    }
    for letter in letters(folder) {
        assert_untold("a letter", &letter.to_string(), secrets);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_told_nowhere_wherever_it_comes_from_and_whatever_becomes_of_it() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for wrong in [false, true] {
        let server = Scripted::start().await;
        let right = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("ann:{PASSWORD}"));
        server.require_header("authorization", &format!("Basic {}", if wrong { "wrong" } else { right.as_str() }));
        let encoded = "hunter2%20+%25%2F%40%3A%C3%A9";
        let url = server.url();
        let with_password = url.replace("://", &format!("://ann:{encoded}@"));
        let folder = std::sync::Arc::new(Folder::new());
        folder.write("password", PASSWORD);
        folder.write("written.toml", format!("[sink]\nurl = \"{url}\"\nusername = \"ann\"\npassword = \"{PASSWORD}\"\n"));
        folder.write("filled.toml", format!("[sink]\nurl = \"{url}\"\nusername = \"ann\"\npassword = \"${{SEARCH_PASSWORD}}\"\n"));
        folder.write("in-url.toml", format!("[sink]\nurl = \"{with_password}\"\n"));
        let user = ["--to", url.as_str(), "--username", "ann"];
        let aws = Scripted::start().await;
        let stored = serde_json::json!({ "SecretString": serde_json::json!({ "username": "ann", "password": PASSWORD }).to_string() });
        aws.fix("POST", "/", 200, &stored.to_string(), &[]);
        let aws_url = aws.url();
        let with_secret = [&KEYS[1..], &[("AWS_ENDPOINT_URL_SECRETS_MANAGER", aws_url.as_str()), ("LOG_SIGNABLE_BODY", "true")]].concat();
        for (global, sink, environment) in [
            (&[][..], &["--to", with_password.as_str()][..], &[][..]),
            (&[], &[], &[("REVSYNC_TO", with_password.as_str())]),
            (&[], &user, &[("REVSYNC_PASSWORD", PASSWORD)]),
            (&[], &[&user[..], &["--password-file", "password"]].concat(), &[]),
            (&[], &["--to", url.as_str(), "--password-secret", "search"], &with_secret),
            (&["--config", "written.toml"], &[], &[]),
            (&["--config", "filled.toml"], &[], &[("SEARCH_PASSWORD", PASSWORD)]),
            (&["--config", "in-url.toml"], &[], &[]),
        ] {
            let before = server.requests().len();
            assert_secrets_kept(&folder, global, sink, environment, &PASSWORD_FORMS).await;
            assert!(server.requests().len() > before, "the server was reached by {global:?} {sink:?} {environment:?}");
        }
        if wrong {
            // Ways in which no answer comes.
            for url in [
                format!("http://ann:{encoded}@{closed}"),
                format!("http://ann:{encoded}@search.invalid"),
                with_password.replace("http://", "https://"),
                format!("htps://ann:{encoded}@h"),
                format!("http://ann:{encoded}@h:99999"),
                format!("ann:{encoded}@h"),
            ] {
                assert_secrets_kept(&folder, &[], &["--to", &url], &[], &PASSWORD_FORMS).await;
            }
        }
    }
}

/// AWS credentials as they come from the environment, and from a role.
const KEYS: [(&str, &str); 5] = [
    ("REVSYNC_NO_GZIP", "true"),
    ("AWS_ACCESS_KEY_ID", "AKIAQUOKKAONE"),
    ("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment"),
    ("AWS_SESSION_TOKEN", "token-of-the-environment"),
    ("AWS_REGION", "eu-west-1"),
];
/// The id of an access key is a name like that of a user, and no secret.
const KEY_FORMS: [&str; 4] = ["secret-of-the-environment", "token-of-the-environment", "secret-of-the-role", "token-of-the-role"];

#[tokio::test(flavor = "multi_thread")]
async fn aws_credentials_are_told_nowhere_wherever_they_come_from_and_whatever_becomes_of_them() {
    let sts = Scripted::start().await;
    let role = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>\
                <AccessKeyId>AKIAQUOKKATWO</AccessKeyId><SecretAccessKey>secret-of-the-role</SecretAccessKey>\
                <SessionToken>token-of-the-role</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>\
                </AssumeRoleResult></AssumeRoleResponse>";
    sts.fix("POST", "/", 200, role, &[]);
    let sts_url = sts.url();
    let canonical = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key.\\n\\nThe \
                     Canonical String for this request should have been\\n'POST\\nx-amz-security-token:token-of-the-environment quokkazz'";
    for refused in [false, true] {
        let server = Scripted::start().await;
        if refused {
            for (method, path) in [("GET", "/"), ("GET", "/t"), ("POST", "/t/_search"), ("POST", "/_bulk")] {
                let errortype = [("x-amzn-errortype", "InvalidSignatureException")];
                server.fix(method, path, 403, &format!(r#"{{"message":"{canonical}"}}"#), &errortype);
            }
        } else {
            server.script([Step::reject(0, 400, "mapper_parsing_exception", "quokkazz")]);
        }
        let folder = std::sync::Arc::new(Folder::new());
        let url = server.url();
        let signed = ["--to", url.as_str(), "--auth", "aws"];
        let assumed = [&signed[..], &["--assume-role", "arn:aws:iam::000000000000:role/revsync"]].concat();
        assert_secrets_kept(&folder, &[], &signed, &KEYS, &KEY_FORMS).await;
        let asked = sts.requests().len();
        let environment = [&KEYS[..], &[("AWS_ENDPOINT_URL_STS", sts_url.as_str())]].concat();
        assert_secrets_kept(&folder, &[], &assumed, &environment, &KEY_FORMS).await;
        assert!(sts.requests().len() > asked, "the role was assumed");
        let by_role = server.requests().iter().filter(|request| request.header("authorization").unwrap().contains("AKIAQUOKKATWO")).count();
        assert!(by_role > 0, "the role signed");
    }
}
