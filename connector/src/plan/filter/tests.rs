//! What conditions mean, and which are refused.

use super::*;

/// What a condition says of a document.
fn matches(condition: &str, json: &str) -> bool {
    let filter = Filter::parse(condition).unwrap_or_else(|error| panic!("{condition}: {error}"));
    filter.matches(json.as_bytes()).unwrap_or_else(|| panic!("{json} is an object"))
}

/// Asserts which of the conditions match a document.
fn check(json: &str, matching: &[&str], others: &[&str]) {
    for (conditions, expected) in [(matching, true), (others, false)] {
        for condition in conditions {
            assert_eq!(matches(condition, json), expected, "{condition} on {json}");
        }
    }
}

/// Asserts that a condition holds, or does not, or that neither it nor its opposite does.
fn known(condition: &str, json: &str, expected: Option<bool>) {
    let found = (matches(condition, json), matches(&format!("NOT ({condition})"), json));
    assert_eq!(found, (expected == Some(true), expected == Some(false)), "{condition} on {json}");
}

fn refused(text: &str) -> String {
    match Filter::parse(text) {
        Ok(_) => panic!("{text} should be refused"),
        Err(Error { what, help, .. }) => {
            assert!(help.is_some_and(|help| !help.is_empty()), "{text}: what to do");
            assert!(what.starts_with("expected "), "{text}: {what}");
            what
        }
    }
}

#[test]
fn the_condition_that_the_help_shows_is_one() {
    let example = Filter::parse("").unwrap_err().help.unwrap();
    let condition = example.strip_prefix("write a condition such as ").unwrap();
    check(r#"{"State":"WA","Fee":10.5}"#, &[condition], &[]);
    check(r#"{"State":"XX","Fee":10.5}"#, &[], &[condition]);
}

#[test]
fn a_path_is_compared_with_a_value() {
    check(
        r#"{"State":"WA","Fee":90.25,"Paid":true,"Owner":{"Id":"x"}}"#,
        &[
            "State = 'WA'",
            "State <> 'XX'",
            "'XX' != State",
            "Fee > 90",
            "90 < Fee",
            "Fee >= 90.250",
            "Fee <= 9025e-2",
            "Paid = TRUE",
            "Paid",
            "Owner.Id = 'x'",
            "State < 'WB'",
            "NOT State = 'XX'",
            "Paid > false",
            "TRUE",
            "(State) = ('WA')",
        ],
        &[
            "State = 'wa'",
            "state = 'WA'",
            "State = \"WA\"",
            "Fee < 90",
            "90 > Fee",
            "Paid = FALSE",
            "NOT Paid",
            "Owner.Id <> 'x'",
            "Owner = 'x'",
            "FALSE",
            "Fee = -90.25",
        ],
    );
}

#[test]
fn two_paths_are_compared_with_each_other() {
    check(
        r#"{"a":1.0,"b":1,"c":"1","l":[1,2],"m":[2,3],"n":[5]}"#,
        &["a = b", "a >= b", "l = m", "l <> m", "l < m", "m > l", "l <> l", "l < l", "a BETWEEN b AND b", "b BETWEEN a AND m"],
        &["a <> b", "a < b", "a = c", "a <> c", "l = n", "m > n", "n <> n", "nothing = nothing", "a = nothing"],
    );
    known("n = l", r#"{"l":[1,2],"n":[5]}"#, Some(false));
    known("n = l", r#"{"l":[1,"2"],"n":[5]}"#, None);
    known("n = l", r#"{"l":[],"n":[5]}"#, None);
}

#[test]
fn and_binds_before_or_and_not_before_both() {
    let json = r#"{"t":true,"f":false}"#;
    check(
        json,
        &[
            "t OR t AND f",
            "NOT f AND t",
            "NOT (t AND f)",
            "t AND (f OR t)",
            "NOT f OR f",
            "NOT NOT t",
            "f OR f OR t",
            "t AND t AND t",
            "not f and t Or f",
            "t -- and f",
            "t /* and f */ AND\n\tt",
        ],
        &["(t OR t) AND f", "NOT (t OR f)", "t AND f OR f", "NOT t OR f", "f AND t OR f AND t"],
    );
}

#[test]
fn what_is_unknown_does_not_match_and_neither_does_its_opposite() {
    let json = r#"{"null":null,"s":"1","n":1,"b":true,"o":{"n":1},"empty":[],"huge":1e99999999999999999999}"#;
    for condition in [
        "missing = 1",
        "missing <> 1",
        "missing",
        "\"null\" = 1",
        "\"null\" <> 'x'",
        "s = 1",
        "s <> 1",
        "n < '2'",
        "b = 'true'",
        "b <> 1",
        "o = 1",
        "o <> 'x'",
        "empty = 1",
        "empty <> 1",
        "o.n.x = 1",
        "n.x = 1",
        "huge = 1",
        "huge > 1",
        "s",
        "missing LIKE '%'",
        "n LIKE '1'",
        "missing BETWEEN 1 AND 2",
        "n BETWEEN 'a' AND 'b'",
        "n BETWEEN missing AND 5",
        "missing IN (1, 2)",
        "s IN (1, 2)",
        "n IN (2, 'x')",
        "missing = 1 AND TRUE",
        "missing = 1 OR FALSE",
    ] {
        known(condition, json, None);
    }
    known("missing = 1 AND FALSE", json, Some(false));
    known("missing = 1 OR TRUE", json, Some(true));
    known("missing = 1 OR n = 1", json, Some(true));
    known("n BETWEEN missing AND 0", json, Some(false));
    known("n IN (1, 'x')", json, Some(true));
}

#[test]
fn null_and_missing_can_be_told_apart_and_are_never_unknown() {
    let json = r#"{"null":null,"x":0,"o":{},"e":[],"nulls":[null,[null]],"some":[null,1],"l":[{"a":null},{"b":1}],"m":[{},{}]}"#;
    for (path, is_null, is_missing) in [
        ("\"null\"", true, false),
        ("nowhere", true, true),
        ("x", false, false),
        ("o", false, false),
        ("o.a", true, true),
        ("x.a", true, true),
        ("\"null\".a", true, true),
        ("e", true, false),
        ("e.a", true, true),
        ("nulls", true, false),
        ("some", false, false),
        ("l.a", true, false),
        ("l.b", false, false),
        ("m.a", true, true),
        ("m", false, false),
    ] {
        known(&format!("{path} IS NULL"), json, Some(is_null));
        known(&format!("{path} IS NOT NULL"), json, Some(!is_null));
        known(&format!("({path}) is missing"), json, Some(is_missing));
        known(&format!("{path} IS NOT MISSING"), json, Some(!is_missing));
    }
}

#[test]
fn a_path_through_a_list_means_any_element() {
    let json =
        r#"{"Tags":["a","b",["c"]],"Mixed":["a",1,null],"Owners":[{"Id":"x","Age":17},{"Id":"y","Age":70},{"Name":"z"}],"Empty":[]}"#;
    let expected = [
        ("Tags = 'b'", Some(true)),
        ("Tags = 'c'", Some(true)),
        ("Tags = 'd'", Some(false)),
        ("Tags <> 'b'", Some(true)),
        ("Owners.Id = 'y'", Some(true)),
        ("Owners.Id = 'z'", Some(false)),
        ("Owners.Id IN ('z', 'y')", Some(true)),
        ("Owners.Id NOT IN ('z', 'y')", Some(false)),
        ("Owners.Id NOT IN ('v', 'w')", Some(true)),
        ("Owners.Age BETWEEN 18 AND 69", Some(false)),
        ("Owners.Age NOT BETWEEN 18 AND 69", Some(true)),
        ("Owners.Age >= 18 AND Owners.Age <= 69", Some(true)),
        ("Tags LIKE 'b%'", Some(true)),
        ("Tags NOT LIKE 'b%'", Some(false)),
        ("Mixed = 'a'", Some(true)),
        ("Mixed = 'b'", None),
        ("Mixed <> 1", None),
        ("Mixed <> 2", Some(true)),
        ("Empty = 'a'", None),
    ];
    for (condition, holds) in expected {
        known(condition, json, holds);
    }
    check(json, &["NOT Tags = 'd'", "NOT Tags IN ('d', 'e')"], &["NOT Tags = 'b'", "NOT Mixed = 'b'", "NOT Empty = 'a'"]);
}

#[test]
fn numbers_are_compared_to_their_last_digit() {
    check(
        r#"{"max":9223372036854775807,"over":9223372036854775808,"d":442.30,"z":-0.0,"h":1e400,"far":1e999999999,
            "tenth":0.10000000000000000000000000000000000000,"near":0.10000000000000000000000000000000000001}"#,
        &[
            "max < 9223372036854775808",
            "max = 9223372036854775807",
            "max BETWEEN 9223372036854775807 AND 9223372036854775807",
            "max >= -9223372036854775809",
            "over <> max",
            "over > max",
            "d = 442.3",
            "d = +442.300",
            "d <> - 442.3",
            "d IN (1, 442.3)",
            "z = 0",
            "z = - - 0",
            "z > -1e-999999999",
            "h > 9e399",
            "h < 1.1e400",
            "far > h",
            "far = 1E+999999999",
            "tenth = .1",
            "near > 0.1",
        ],
        &["max = 9223372036854775808", "over = max", "d = 442.31", "tenth = near", "h = far", "far < 1e999999998", "z < 0"],
    );
}

#[test]
fn strings_are_compared_by_code_points_after_their_escapes() {
    check(
        "{\"t\":\"2017-08-21T10:00:00Z\",\"e\":\"caf\\u00e9 \\\"x\\\"\",\"q\":\"it's\",\"u\":\"\\ud83d\\ude00\",\"na.me\":1,\"f:x y\":{\"z\":\"\"}}",
        &[
            "t >= '2017-08-21'",
            "t < '2017-08-22'",
            "e = 'café \"x\"'",
            "q = 'it''s'",
            "u > '～'",
            "u LIKE '_'",
            "\"na.me\" = 1",
            "\"f:x y\".z = ''",
            "\"f:x y\".\"z\" LIKE '%'",
            "e LIKE 'caf_ %'",
            "q LIKE 'it!''%' ESCAPE '!'",
            "t BETWEEN '2017' AND '2018'",
        ],
        &["t = '2017-08-21'", "e = 'cafe \"x\"'", "e = 'caf\\u00e9 \"x\"'", "na.me = 1", "q LIKE 'IT%'", "q LIKE 'i!%' ESCAPE '!'"],
    );
}

#[test]
fn names_that_other_dialects_reserve_are_paths() {
    let json = r#"{"Date":"2020","Type":1,"Order":2,"interval":3,"User":4,"All":5,"end":6,"Größe":7,"select":8}"#;
    check(
        json,
        &["Date = '2020'", "Type = 1", "Order = 2", "interval = 3", "User = 4", "end = 6", "Größe = 7", "\"select\" = 8", "5 = \"All\""],
        &["DATE = '2020'"],
    );
}

#[test]
fn a_condition_has_expressions_on_both_sides() {
    check(
        r#"{"State":"WA","Fee":90.25,"Paid":true,"Tags":["a","b"],"Two":2,"When":"2019-05-01T10:00:00.5+02:00","Day":"2019-05-01"}"#,
        &[
            "lower(State) = 'wa'",
            "State IN (Nothing, UPPER('wa'))",
            "Fee + 1 = 91.25",
            "Fee * Two - 0.5 = 180",
            "-Fee < 0 AND Fee / Two = 45.125",
            "Two % 2 = 0",
            "'a' IN (Tags, 'z')",
            "5 BETWEEN Two AND Fee",
            "(Two = 2) = Paid",
            "(Nothing = 1) IS NULL",
            "(Nothing = 1) IS UNKNOWN AND (Two = 2) IS TRUE AND Paid IS NOT FALSE",
            "CASE WHEN Two > 1 THEN Paid ELSE FALSE END",
            "Tags[1] = 'b' AND Tags[2] IS MISSING",
            "CAST(Two AS VARCHAR) = '2'",
            "State || Two = 'WA2'",
            "1 = 1",
            "When < '2019-05-01T08:00:01Z' AND When > '2019-05-01T08:00:00Z'",
            "When > '2019-05-01' AND When > Day",
            "When BETWEEN TIMESTAMP '2019-05-01 08:00:00' AND TIMESTAMP '2019-05-02'",
            "When + INTERVAL '1' MONTH - INTERVAL '1' DAY >= DATE '2019-05-30'",
            "EXTRACT(HOUR FROM When) = 8 AND DATE_TRUNC('day', When) = Day",
        ],
        &[
            "Fee + Nothing = 1",
            "Fee / 0 = 1",
            "State + 1 = 2",
            "Two = '2'",
            "TIMESTAMP '2019-05-01' = State",
            "CASE WHEN Nothing THEN TRUE END",
        ],
    );
}

#[test]
fn what_no_condition_has_is_refused_with_what_was_found() {
    let mut others = Vec::new();
    for (text, found) in [
        ("", "found the end"),
        (" -- nothing", "found the end"),
        ("State =", "found the end"),
        ("State = 'XX' AND", "found the end"),
        ("State = 'XX", "expected another ' before the end, found none for the one at line 1, column 9"),
        ("State = 'a' 'b'", "found 'b' at line 1, column 13"),
        ("State = 'a'; State = 'b'", "found ; (the end of a statement) at line 1, column 12"),
        ("State = 'a';", "found ;"),
        ("WHERE State = 'a'", "found WHERE at line 1, column 1"),
        ("SELECT * FROM t", "found SELECT"),
        ("SELECT a FROM t", "found SELECT"),
        ("Id IN (SELECT Id FROM t)", "found SELECT"),
        ("Id IN ()", "found )"),
        ("Id IN 'x'", "expected a list in parentheses behind IN, found something else at line 1, column 7"),
        ("Id IN (1, NULL)", "found NULL, with which no comparison is true"),
        ("Id NOT IN (NULL)", "found NULL, with which no comparison is true"),
        ("Id = NULL", "found NULL, with which no comparison is true"),
        ("NULL", "found a value"),
        ("Id = ?", "found ? (a parameter)"),
        ("Id = $1", "(a parameter)"),
        ("Id = :id", "(a parameter)"),
        ("count(*) > 1", "found *"),
        ("EXISTS (SELECT 1)", "found SELECT"),
        ("nope(Id) = 1", "expected a function that there is, found nope at line 1, column 1"),
        ("count(Id) > 1", "a function of many rows"),
        ("upper(Id)", "expected a condition, found the function upper"),
        ("upper(Id, 1) = 1", "expected one argument of upper, found 2"),
        ("Fee + 1", "expected a condition, found arithmetic"),
        ("CAST(Id AS thing) = 1", "expected a type of VARCHAR"),
        ("a > NOW()", "found the time of now"),
        ("a > current_timestamp", "found the time of now"),
        ("a = TIMESTAMP 'yesterday'", "expected a timestamp in single quotes"),
        ("INTERVAL '1' DAY = a", "expected a time and + or -"),
        ("1", "found a value"),
        ("a = b = c", "expected AND between two comparisons"),
        ("a AND b = c OR", "found the end"),
        ("(a = 1", "found the end"),
        ("a = 1)", "found )"),
        ("a IS DISTINCT FROM b", "found DISTINCT"),
        ("a IS 5", "found 5"),
        ("upper(a) IS MISSING", "expected a path before IS MISSING"),
        ("a[-1] = 1", "expected the number of an element, from 0, found -"),
        ("a[b] = 1", "expected the number of an element, from 0, found b"),
        ("a ILIKE 'x'", "another kind than LIKE"),
        ("a SIMILAR TO 'x'", "another kind than LIKE"),
        ("a LIKE b", "found a path"),
        ("a LIKE 5", "found a value"),
        ("a LIKE 'x' ESCAPE 'yy'", "found something else"),
        ("a LIKE 'x!' ESCAPE '!'", "the end of the pattern"),
        ("a = ANY (1)", "ANY, SOME or ALL"),
        ("a.* = 1", "found *"),
        ("a. = 1", "found ="),
        ("a..b = 1", "found ."),
        ("\"\" = 1", "found an empty one"),
        ("a = \"", "expected another \" before the end, found none for the one at line 1, column 5"),
        ("`a` = 1", "found `"),
        ("a == 1", "found =="),
        ("a <=> 1", "found <=>"),
        ("a::int = 1", "found ::"),
        ("a = N'x'", "found N'x'"),
        ("a = 0x10", "found X'10'"),
        ("a = 1e99999999999999999999", "exponent"),
        ("a XOR b", "found an expression with XOR"),
        ("a AND AND b", "found AND at line 1, column 7"),
        ("NOT", "found the end"),
        ("a LIMIT 5", "found LIMIT"),
        ("a = 'x' EMIT CHANGES", "found EMIT"),
    ] {
        let what = refused(text);
        if !what.contains(found) {
            others.push(what);
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn no_length_and_no_nesting_of_a_condition_overflows_the_stack() {
    let deep = |before: &str, middle: &str, after: &str| {
        [10, 100, 1_000, 4_000].map(|times| format!("{}{middle}{}", before.repeat(times), after.repeat(times)))
    };
    let texts = [
        deep("(", "a = 1", ")"),
        deep("(", "", ""),
        deep("NOT ", "a", ""),
        deep("NOT (", "a", ")"),
        deep("NOT (", "a = ", ")"),
        deep("a = - ", "1", ""),
        deep("- ", "1 = a", ""),
        deep("a AND ", "b", ""),
        deep("a AND ", "", ""),
        deep("a OR b AND ", "c", ""),
        deep("a OR b AND ", "c d", ""),
        deep("a OR ", "b + 1", ""),
        deep("", "a", " IS NULL"),
        deep("", "a", " IS MISSING"),
        deep("a = ", "b", ""),
        deep("a IN (", "1", ")"),
        deep("a OR (", "1 = a", ")"),
        deep("a = (", "1", ")"),
        deep("a BETWEEN (", "1", ") AND 5"),
        deep("a OR NOT (", "b", ")"),
        deep("a LIKE (", "b", ")"),
        deep("", "a", " IN (1)"),
        deep("a BETWEEN ", "b", " AND c"),
        deep("a.", "b = 1", ""),
        deep("f(", "a", ")"),
        deep("upper(", "a", ")"),
        deep("a + ", "b = 1", ""),
        deep("a || b * ", "c = 1", ""),
        deep("CASE WHEN a THEN ", "b", " END"),
        deep("CASE ", "a", " WHEN b THEN c END"),
        deep("CAST(", "a", " AS INT) = 1"),
        deep("CAST(a AS INT(", "1", "))"),
        deep("substring(", "a", " FROM 1) = 'x'"),
        deep("position(a IN ", "b", ")"),
        deep("coalesce(a, ", "b", ")"),
        deep("(a, ", "b", ")"),
        deep("a IN (b, ", "c", ")"),
        deep("a IN (b IN (", "c", "), d)"),
        deep("a[0]", " = 1", ""),
        deep("a IS NOT TRUE AND (", "b", ") IS FALSE"),
        deep("", "a", " + INTERVAL '1' DAY"),
        deep("", "a", " LIKE 'x'"),
    ];
    for text in texts.as_flattened() {
        if let Ok(filter) = Filter::parse(text) {
            filter.clone().matches(br#"{"a":true,"b":{"a":1}}"#).unwrap();
        }
    }
    assert!(refused(&"(".repeat(1_000)).contains("fewer parentheses"));
    assert!(refused(&format!("{}a", "a AND ".repeat(3_000))).contains("at most 5000 words"));
    assert!(Filter::parse(&format!("{}a = 1{}", "(".repeat(20), ")".repeat(20))).is_ok());
}

#[test]
fn a_long_list_of_values_is_a_condition_like_any_other() {
    let list: Vec<String> = (0..20_000).map(|number| format!("'id-{number}'")).collect();
    let condition = format!("Id IN ({})", list.join(", "));
    check(r#"{"Id":"id-19999"}"#, &[&condition], &[]);
    check(r#"{"Id":"id-20000"}"#, &[], &[&condition]);
}

#[test]
fn two_long_lists_are_compared_without_trying_every_pair() {
    let numbers = |from: u32| (from..from + 200_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let json = format!("{{\"a\":[{}],\"b\":[{}]}}", numbers(0), numbers(200_000));
    check(&json, &["a < b", "a <> b"], &["a = b", "a > b"]);
}

#[test]
fn what_is_no_document_is_neither() {
    for json in ["", "[]", "{\"a\":", "{\"a\":1}}"] {
        assert_eq!(Filter::parse("a = 1").unwrap().matches(json.as_bytes()), None, "{json}");
    }
}
