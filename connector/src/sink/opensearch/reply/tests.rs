//! Answers as servers give them, and as they do not.

use super::*;

fn read(body: &str, actions: &[&'static str]) -> Result<Vec<Reply>, Failure> {
    parse(body.as_bytes(), actions.iter().copied(), 0).map(|replies| replies.operations)
}

fn is_unmatched(result: &Result<Vec<Reply>, Failure>) -> bool {
    matches!(result, Err(Failure::Retry { class: Class::Unavailable, .. }))
}

#[test]
fn items_stand_in_the_order_of_the_operations() {
    let replies = read(
        r#"{"errors":true,"items":[{"delete":{"status":404}},{"index":{"status":201}},{"index":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"[1]: version conflict, current version [2] is higher or equal to the one provided [1]"}}}]}"#,
        &["delete", "index", "index"],
    )
    .unwrap();
    assert_eq!(replies[0], Reply::ok(404));
    assert_eq!(replies[1], Reply::ok(201));
    assert_eq!(replies[2].error.as_ref().unwrap().kind, "version_conflict_engine_exception");
}

#[test]
fn layout_and_order_of_keys_do_not_matter() {
    let pretty = "\u{feff}{\n  \"items\" : [ { \"index\" : { \"error\" : null, \"status\" : 200 } } ],\n  \"took\" : 3,\n  \"errors\" : false\n}\r\n  ";
    assert_eq!(read(pretty, &["index"]).unwrap(), vec![Reply::ok(200)]);
}

#[test]
fn an_answer_that_does_not_fit_settles_nothing() {
    for body in [
        "",
        "{}",
        "[]",
        "null",
        "OK",
        r#"{"errors":false}"#,
        r#"{"errors":false,"items":[]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":200}},{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"index":{"status":200}}]}"#,
        r#"{"errors":false,"items":[{"delete":{"status":200}},{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201},"delete":{"status":200}},{"delete":{"status":200}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":"200"}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":200}}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":200}}]}{"#,
    ] {
        let result = read(body, &["index", "delete"]);
        assert!(is_unmatched(&result), "{body}: {result:?}");
    }
}

#[test]
fn any_prefix_of_an_answer_settles_nothing() {
    let body = r#"{"errors":true,"items":[{"index":{"status":201}},{"delete":{"status":404}},{"index":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse"}}}]}"#;
    let actions = ["index", "delete", "index"];
    assert_eq!(read(body, &actions).unwrap().len(), 3);
    for end in 0..body.len() {
        let result = read(&body[..end], &actions);
        assert!(is_unmatched(&result), "{end}: {result:?}");
    }
}

#[test]
fn a_rejection_keeps_its_type_its_field_and_the_type_of_its_cause() {
    let replies = read(
        r#"{"errors":true,"items":[{"index":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse field [l] of type [long] in document with id '1'. Preview of field's value: 'secret'","caused_by":{"type":"illegal_argument_exception","reason":"For input string: \"secret\""}}}}]}"#,
        &["index"],
    )
    .unwrap();
    let fault = replies[0].error.as_ref().unwrap();
    assert_eq!(fault.kind, "mapper_parsing_exception");
    assert_eq!(fault.reason, "failed to parse field [l] of type [long] in document with id '1' (illegal_argument_exception)");
}

#[test]
fn the_cause_is_told_where_it_quotes_nothing() {
    let replies = read(
        r#"{"items":[{"index":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse","caused_by":{"type":"illegal_argument_exception","reason":"field name cannot be an empty string"}}}}]}"#,
        &["index"],
    )
    .unwrap();
    assert_eq!(
        replies[0].error.as_ref().unwrap().reason,
        "failed to parse (illegal_argument_exception: field name cannot be an empty string)"
    );
}

#[test]
fn an_error_that_is_a_bare_text_is_still_an_error() {
    let replies = read(r#"{"items":[{"index":{"status":400,"error":"MapperParsingException[secret]"}}]}"#, &["index"]).unwrap();
    let fault = replies[0].error.as_ref().unwrap();
    assert_eq!((fault.kind.as_str(), fault.reason.as_str()), ("unnamed_error", redact::WITHHELD));
}

#[test]
fn guards_belong_to_no_operation() {
    let body = r#"{"items":[{"delete":{"status":200}},{"update":{"status":404,"error":{"type":"document_missing_exception","reason":"[g]: document missing","index_uuid":"abc"}}}]}"#;
    let replies = parse(body.as_bytes(), ["delete"].into_iter(), 1).unwrap();
    assert_eq!(replies.operations, vec![Reply::ok(200)]);
    assert_eq!(replies.guards, vec![Some("abc".to_owned())]);
}

#[test]
fn what_fails_every_item_alike_is_said_once() {
    for (reason, expected) in [
        ("no write index is defined for alias [people]. The write index may be explicitly disabled", "alias people has no write index"),
        ("Document ID is not supported in create/index operation request", "collections of type SEARCH"),
    ] {
        let body =
            format!(r#"{{"items":[{{"index":{{"status":400,"error":{{"type":"illegal_argument_exception","reason":"{reason}"}}}}}}]}}"#);
        match read(&body, &["index"]) {
            Err(Failure::Misconfigured { what }) => assert!(what.contains(expected), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_body_that_is_too_large_tells_the_limit_where_amazon_says_it() {
    match refused("h:1", 413, br#"{"Message":"Request size exceeded 10485760 bytes"}"#, None, None) {
        Failure::TooLarge { what, limit } => {
            assert_eq!(limit, Some(10_485_760));
            assert_eq!(what, "h:1 answered status 413: Request size exceeded 10485760 bytes");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(refused("h:1", 413, b"", None, None), Failure::TooLarge { what: "h:1 answered status 413".to_owned(), limit: None });
}

#[test]
fn a_403_is_a_block_or_a_refusal_by_its_type() {
    let block = br#"{"error":{"type":"cluster_block_exception","reason":"index [people] blocked by: [FORBIDDEN/8/index write (api)];"},"status":403}"#;
    assert!(matches!(refused("h:1", 403, block, None, None), Failure::Retry { class: Class::Blocked, .. }));
    let security = br#"{"error":{"type":"security_exception","reason":"no permissions for [indices:data/write/bulk]"},"status":403}"#;
    assert!(matches!(refused("h:1", 403, security, None, None), Failure::Unauthorized { .. }));
    let expired = br#"{"message":"The security token included in the request is expired"}"#;
    match refused("h:1", 403, expired, Some("ExpiredTokenException:http://internal.amazon.com/coral/"), None) {
        Failure::Unauthorized { what } => {
            assert_eq!(what, "h:1 answered status 403, ExpiredTokenException: The security token included in the request is expired");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_amazon_refuses_for_its_credentials_is_known_wherever_the_type_stands() {
    let text = r#"{"message":"The security token included in the request is expired"}"#;
    for (body, header) in [
        (text, Some("ExpiredTokenException:http://internal.amazon.com/coral/com.amazon.coral.service/")),
        (text, Some("com.amazon.coral.service#ExpiredTokenException")),
        (r#"{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"x"}"#, None),
        (r#"{"Message":"x"}"#, Some("ExpiredToken")),
        (text, None),
    ] {
        for status in [400, 403] {
            let failure = refused("h:1", status, body.as_bytes(), header, None);
            assert!(matches!(failure, Failure::Unauthorized { .. }), "{status} {body} {header:?}: {failure:?}");
            assert!(!is_about_time(body.as_bytes(), header), "{body} {header:?}");
        }
    }
}

#[test]
fn a_refusal_that_may_be_about_the_time_is_known_by_its_type_or_its_text() {
    for (body, header) in [
        (r#"{"message":"Signature expired: 20240501T100000Z is now earlier than 20240501T101500Z (20240501T102000Z - 5 min.)"}"#, None),
        (
            r#"{"message":"Signature not yet current: 20240501T104000Z is still later than 20240501T102500Z (20240501T102000Z + 5 min.)"}"#,
            None,
        ),
        (r#"{"message":"x"}"#, Some("InvalidSignatureException")),
        (r#"{"__type":"RequestTimeTooSkewed"}"#, None),
        ("", Some("RequestExpired:http://internal.amazon.com/")),
    ] {
        assert!(is_about_time(body.as_bytes(), header), "{body} {header:?}");
        assert!(matches!(refused("h:1", 400, body.as_bytes(), header, None), Failure::Unauthorized { .. }), "{body} {header:?}");
    }
    for (body, header) in
        [("", None), (r#"{"message":"Forbidden"}"#, None), (r#"{"error":{"type":"security_exception"}}"#, Some("AuthFailure"))]
    {
        assert!(!is_about_time(body.as_bytes(), header), "{body} {header:?}");
    }
}

#[test]
fn a_request_refused_whole_is_invalid_only_when_opensearch_says_so() {
    let typed =
        br#"{"error":{"type":"action_request_validation_exception","reason":"Validation Failed: 1: id is too long;"},"status":400}"#;
    assert_eq!(
        refused("h:1", 400, typed, None, None),
        Failure::Invalid(Fault::new(
            "action_request_validation_exception",
            "h:1 answered status 400, action_request_validation_exception: Validation Failed: 1: id is too long"
        ))
    );
    assert!(matches!(refused("h:1", 400, b"<html>400</html>", None, None), Failure::Misconfigured { .. }));
    assert!(matches!(refused("h:1", 400, br#"{"error":"no handler found for uri"}"#, None, None), Failure::Misconfigured { .. }));
}

#[test]
fn plain_text_is_not_quoted() {
    match refused("h:1", 429, b"Too Many Requests secret", None, Some(Duration::from_secs(2))) {
        Failure::Retry { class: Class::Throttled, what, after } => {
            assert_eq!(what, "h:1 answered status 429 with 24 bytes that are not OpenSearch's JSON");
            assert_eq!(after, Some(Duration::from_secs(2)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let date = date("Sun, 06 Nov 1994 08:49:37 GMT");
    assert!(date.is_some());
    assert_eq!(retry_after(" 2 ", None), Some(Duration::from_secs(2)));
    assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", date), Some(Duration::from_secs(10)));
    assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:00 GMT", date), Some(Duration::ZERO));
    assert_eq!(retry_after("soon", date), None);
    assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", None), None, "a date of a clock that nobody knows");
}
