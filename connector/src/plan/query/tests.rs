use super::*;

const DATA: &[u8] = br#"{"VIN":"1N4AL11D75C109151","State":"WA","Fee":442.30,"Big":9223372036854775808,"Active":true,"Nothing":null,
"ValidFrom":"2017-08-21","At":"2019-06-05T20:53:32.100Z","data":7,"Group":"g","Tags":["a","b"],
"Owners":{"PrimaryOwner":{"PersonId":"P1"},"SecondaryOwners":[{"PersonId":"P2"},{"PersonId":"P3"}]}}"#;
const COMMITTED: &[u8] = br#"{"blockAddress":{"strandId":"S","sequenceNo":14},"hash":"aGFzaA==","metadata":{"id":"D1","version":2,"txTime":"2019-06-05T20:53:32.1Z","txId":"T1"}}"#;
const NOW: u64 = 1_700_000_000_000;

fn row() -> Row<'static> {
    Row {
        table: "VehicleRegistration",
        op: Op::Index,
        data: Some(DATA),
        committed: Some(COMMITTED),
        time: Some(1_559_768_012_345),
        partition: Place::Number(3),
        offset: Place::Text("4959"),
    }
}

fn query(sql: &str) -> Query {
    Query::parse(sql, NOW).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The values of the one row as JSON; none where it does not match.
fn ask(sql: &str) -> Option<Vec<String>> {
    let query = query(sql);
    let mut values = Vec::new();
    query.answer(&row(), &mut values).then(|| values.iter().map(json).collect())
}

fn json(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    value.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

fn text(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    value.write_text(&mut out);
    String::from_utf8(out).unwrap()
}

fn one(expression: &str) -> String {
    ask(&format!("SELECT {expression} FROM stream")).unwrap().remove(0)
}

fn holds(condition: &str) -> bool {
    ask(&format!("SELECT VIN FROM stream WHERE {condition}")).is_some()
}

fn refusal(sql: &str) -> String {
    Query::parse(sql, NOW).map(|_| ()).expect_err(sql).to_string()
}

#[test]
fn every_column_of_a_row_can_be_selected() {
    assert_eq!(
        ask("SELECT table, op, metadata.id, metadata.version, metadata.txTime, blockAddress.sequenceNo, hash, ROWTIME, rowpartition, RowOffset FROM stream").unwrap(),
        [r#""VehicleRegistration""#, r#""index""#, r#""D1""#, "2", r#""2019-06-05T20:53:32.1Z""#, "14", r#""aGFzaA==""#, r#""2019-06-05T20:53:32.345Z""#, "3", r#""4959""#]
    );
    assert_eq!(query("SELECT * FROM stream").columns(), ["table", "op", "data", "metadata", "blockAddress", "hash"]);
    let all = ask("SELECT * FROM stream").unwrap();
    assert_eq!(all[2].as_bytes(), DATA);
    assert_eq!(all[4], r#"{"strandId":"S","sequenceNo":14}"#);
}

#[test]
fn names_that_are_no_column_are_fields_of_the_document() {
    assert_eq!(one("State"), r#""WA""#);
    assert_eq!(one("data.State"), r#""WA""#);
    assert_eq!(one("data.data"), "7");
    assert_eq!(one("\"Group\""), r#""g""#);
    assert_eq!(one("Owners.PrimaryOwner.PersonId"), r#""P1""#);
    assert_eq!(one("data.Owners.SecondaryOwners[1].PersonId"), r#""P3""#);
    assert_eq!(one("Owners.SecondaryOwners.PersonId"), r#"["P2","P3"]"#);
    assert_eq!(one("Tags[0]"), r#""a""#);
    assert_eq!(one("Tags[9]"), "null");
    assert_eq!(one("state"), "null");
}

#[test]
fn a_table_and_its_alias_may_stand_before_a_name() {
    assert_eq!(
        ask("SELECT v.State, v.data.State, v.metadata.id FROM VehicleRegistration AS v WHERE v.op = 'index'").unwrap(),
        [r#""WA""#, r#""WA""#, r#""D1""#]
    );
    assert_eq!(ask("SELECT VehicleRegistration.State FROM VehicleRegistration").unwrap(), [r#""WA""#]);
    assert_eq!(ask("SELECT r.State FROM stream r").unwrap(), [r#""WA""#]);
}

#[test]
fn values_keep_their_digits_and_their_text() {
    assert_eq!(one("Fee"), "442.30");
    assert_eq!(one("Big"), "9223372036854775808");
    assert_eq!(one("Big + 1"), "9223372036854775809");
    assert_eq!(one("Fee * 2"), "884.60");
    assert_eq!(one("Fee - 442.30"), "0.00");
    assert_eq!(one("Owners.PrimaryOwner"), r#"{"PersonId":"P1"}"#);
    let query = query("SELECT State, Fee, Nothing, Tags, Missing, ROWTIME FROM stream");
    let mut values = Vec::new();
    assert!(query.answer(&row(), &mut values));
    let texts: Vec<String> = values.iter().map(text).collect();
    assert_eq!(texts, ["WA", "442.30", "", r#"["a","b"]"#, "", "2019-06-05T20:53:32.345Z"]);
    assert_eq!(values.iter().map(Value::is_number).collect::<Vec<_>>(), [false, true, false, false, false, false]);
}

#[test]
fn columns_are_named_after_what_they_are_and_no_two_alike() {
    let sql = "SELECT State, data.State, Fee * 2 AS twice, Fee   *\n 3, Owners.PrimaryOwner.PersonId owner, Tags[0], 'x' FROM stream";
    assert_eq!(query(sql).columns(), ["State", "State_2", "twice", "Fee * 3", "owner", "Tags[0]", "'x'"]);
}

#[test]
fn a_table_is_named_exactly() {
    assert_eq!(query("select 1 from VehicleRegistration;").table(), Some("VehicleRegistration"));
    assert_eq!(query("select 1 from shop.item").table(), Some("shop.item"));
    assert_eq!(query("select 1 from \"shop.item\"").table(), Some("shop.item"));
    assert_eq!(query("select 1 from STREAM").table(), None);
    assert_eq!(query("select 1 from \"stream\"").table(), Some("stream"));
    assert!(ask("SELECT 1 FROM Person").is_none() && ask("SELECT 1 FROM vehicleregistration").is_none());
    assert!(ask("SELECT 1 FROM VehicleRegistration").is_some());
}

#[test]
fn a_limit_is_a_whole_number() {
    assert_eq!(query("SELECT 1 FROM stream").limit(), None);
    assert_eq!(query("SELECT 1 FROM stream LIMIT 0").limit(), Some(0));
    assert_eq!(query("SELECT 1 FROM stream WHERE TRUE LIMIT 18446744073709551615;").limit(), Some(u64::MAX));
    for sql in
        ["SELECT 1 FROM stream LIMIT -1", "SELECT 1 FROM stream LIMIT 1.5", "SELECT 1 FROM stream LIMIT x", "SELECT 1 FROM stream LIMIT"]
    {
        assert!(refusal(sql).contains("expected a whole number behind LIMIT"), "{sql}");
    }
}

#[test]
fn a_query_says_whether_it_looks_at_what_was_committed() {
    assert!(!query("SELECT VIN, op FROM stream WHERE State = 'WA'").wants_committed());
    for sql in ["SELECT * FROM stream", "SELECT hash FROM stream", "SELECT VIN FROM stream WHERE metadata.version > 1"] {
        assert!(query(sql).wants_committed(), "{sql}");
    }
}

#[test]
fn deletes_and_redactions_are_rows_without_a_document() {
    let query = query("SELECT op, data, State, metadata.id FROM stream WHERE data IS NULL");
    let mut values = Vec::new();
    assert!(!query.answer(&row(), &mut values));
    assert!(query.answer(&Row { op: Op::Delete, data: None, ..row() }, &mut values));
    assert_eq!(values.iter().map(json).collect::<Vec<_>>(), [r#""delete""#, "null", "null", r#""D1""#]);
    assert!(query.answer(&Row { op: Op::Redacted, data: None, committed: None, ..row() }, &mut values));
    assert_eq!(values.iter().map(json).collect::<Vec<_>>(), [r#""redacted""#, "null", "null", "null"]);
}

#[test]
fn conditions_know_three_values() {
    for yes in [
        "State = 'WA'",
        "NOT State = 'CA'",
        "State IN ('CA', 'WA')",
        "Fee BETWEEN 442.3 AND 443",
        "State LIKE 'W_'",
        "Nothing IS NULL",
        "Nothing IS NOT MISSING",
        "Missing IS MISSING",
        "Active",
        "(Nothing = 1) IS UNKNOWN",
        "Tags = 'b'",
        "Owners.SecondaryOwners.PersonId = 'P3'",
        "Big > 9223372036854775807",
        "CASE WHEN State = 'WA' THEN TRUE ELSE FALSE END",
        "COALESCE(Missing, Nothing, 'x') = 'x'",
        "Fee * 2 = 884.6",
        "State || '-' || VIN LIKE 'WA-1N%'",
        "State = 'WA' AND NOT (Nothing = 1 AND State = 'CA')",
        "State IN (UPPER('wa'), 'x')",
    ] {
        assert!(holds(yes), "{yes}");
    }
    for no in [
        "Nothing = 1",
        "NOT Nothing = 1",
        "Missing <> 'x'",
        "State = 7",
        "State IN ('CA')",
        "State NOT IN ('WA')",
        "NOT Active",
        "State = 'wa'",
        "Fee / 0 = 1",
        "State NOT IN ('CA', Nothing)",
    ] {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn times_compare_as_instants() {
    for yes in [
        "At = '2019-06-05T22:53:32.1+02:00'",
        "At < '2019-06-05T18:53:33-02:00'",
        "At IN ('2019-06-05T20:53:32.1Z')",
        "metadata.txTime = At",
        "metadata.txTime > '2019-06-05'",
        "metadata.txTime < TIMESTAMP '2019-06-06'",
        "ROWTIME > '2019-06-05T20:53:32Z'",
        "ROWTIME = 1559768012345",
        "ValidFrom = '2017-08-21T00:00:00Z'",
        "ValidFrom < '2017-08-21T01:00:00-05:00'",
        "CAST(ValidFrom AS TIMESTAMP) = TIMESTAMP '2017-08-20T22:00:00-02:00'",
        "NOW() > ROWTIME",
        "ROWTIME + INTERVAL '1' DAY > '2019-06-06T20:53:32Z'",
        "ROWTIME BETWEEN '2019-06-05' AND '2019-06-06'",
    ] {
        assert!(holds(yes), "{yes}");
    }
    for no in
        ["metadata.txTime > 'yesterday'", "NOT metadata.txTime > 'yesterday'", "At = '2019-06-05T22:53:32.1Z'", "ROWTIME > '2019-06-06'"]
    {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn functions_come_to_what_their_names_say() {
    for (expression, expected) in [
        ("UPPER('ä') || LOWER('B')", r#""Äb""#),
        ("LENGTH('aé😀')", "3"),
        ("SUBSTRING('abcdef', 2, 3)", r#""bcd""#),
        ("SUBSTRING('abcdef' FROM 5)", r#""ef""#),
        ("SUBSTRING('abcdef' FROM 1 FOR 2)", r#""ab""#),
        ("TRIM('  x ')", r#""x""#),
        ("TRIM(LEADING '0' FROM '007')", r#""7""#),
        ("REPLACE('a-b-c', '-', '+')", r#""a+b+c""#),
        ("CONCAT(State, '/', Fee)", r#""WA/442.30""#),
        ("POSITION('D' IN VIN)", "8"),
        ("STRPOS(VIN, 'zz')", "0"),
        ("STARTS_WITH(VIN, '1N')", "true"),
        ("LEFT(VIN, 2) || RIGHT(VIN, 2)", r#""1N51""#),
        ("ABS(-1.50)", "1.50"),
        ("ROUND(2.5)", "3"),
        ("ROUND(2.345, 2)", "2.35"),
        ("FLOOR(-1.5)", "-2"),
        ("CEIL(1.2)", "2"),
        ("MOD(7, 3)", "1"),
        ("-7 % 3", "-1"),
        ("SIGN(-2)", "-1"),
        ("10 / 4", "2.5"),
        ("1 / 3", "0.3333333333333333333333333333333333333333"),
        ("2 + 3 * 4 - 1", "13"),
        ("'v' || 1 + 2 || '-' || 2 * 3", r#""v3-6""#),
        ("GREATEST(1, 3, 2)", "3"),
        ("LEAST('b', 'a')", r#""a""#),
        ("NULLIF(State, 'WA')", "null"),
        ("CASE State WHEN 'CA' THEN 1 WHEN 'WA' THEN 2 END", "2"),
        ("CAST('12.5' AS INT)", "13"),
        ("CAST('12.5' AS DECIMAL(3,1))", "12.5"),
        ("CAST(7 AS VARCHAR)", r#""7""#),
        ("CAST('x' AS INT)", "null"),
        ("CAST(ROWTIME AS DATE)", r#""2019-06-05""#),
        ("EXTRACT(YEAR FROM ROWTIME)", "2019"),
        ("EXTRACT(EPOCH FROM ROWTIME)", "1559768012.345"),
        ("DATE_TRUNC('month', ROWTIME)", r#""2019-06-01T00:00:00Z""#),
        ("CARDINALITY(Tags)", "2"),
        ("SIZE(Owners)", "null"),
        ("NOW()", r#""2023-11-14T22:13:20Z""#),
        ("TIMESTAMP '2019-01-31T00:00:00Z' + INTERVAL '1' MONTH", r#""2019-02-28T00:00:00Z""#),
        ("Fee > 400", "true"),
        ("Nothing > 400", "null"),
    ] {
        assert_eq!(one(expression), expected, "{expression}");
    }
}

#[test]
fn numbers_that_could_cost_without_end_are_null() {
    for expression in ["1e999999999 + 1", "1e-999999999 + 1", "1e600 * 1e600 * 1e600", "1 / 0", "1 % 0"] {
        assert_eq!(one(expression), "null", "{expression}");
    }
    assert!(holds("1e999999999 > 1e999999998"));
}

#[test]
fn what_a_pull_query_has_not_is_refused_with_what_to_do_instead() {
    for (sql, what, help) in [
        ("SELECT * FROM t EMIT CHANGES", "expected no EMIT CHANGES, found it at line 1, column 17", "a pull query ends by itself"),
        ("SELECT a, COUNT(*) FROM t GROUP BY a EMIT CHANGES;", "expected no EMIT CHANGES, found it", "revsync run is the one that follows"),
        ("SELECT a FROM t GROUP BY a", "expected no GROUP BY", "jq"),
        ("SELECT COUNT(*) FROM t", "expected no COUNT", "jq -s length"),
        ("SELECT max(Fee) FROM t", "expected no MAX", "jq"),
        ("SELECT DISTINCT State FROM t", "expected no DISTINCT", "sort -u"),
        ("SELECT a FROM t JOIN u ON t.x = u.x", "expected no JOIN", "revsync sync"),
        ("SELECT a FROM t LEFT JOIN u ON t.x = u.x", "expected no JOIN", "revsync sync"),
        ("SELECT a FROM t, u", "expected no JOIN", "FROM stream"),
        ("SELECT a FROM t ORDER BY a", "expected no ORDER BY", "sort"),
        ("SELECT a FROM t HAVING a > 1", "expected no HAVING", "WHERE"),
        ("SELECT a FROM t WINDOW TUMBLING (SIZE 1 HOUR)", "expected no WINDOW", "ROWTIME"),
        ("SELECT RANK() OVER (PARTITION BY a) FROM t", "expected no ", "group what is printed"),
        ("SELECT a FROM t UNION SELECT a FROM u", "expected no SELECT inside of another", "IN"),
        ("SELECT a FROM (SELECT a FROM t)", "expected no SELECT inside of another", "IN"),
        ("SELECT a FROM t WHERE a IN (SELECT b FROM u)", "expected no SELECT inside of another", "IN"),
        ("SELECT a FROM t LIMIT 3 OFFSET 5", "expected no OFFSET", "ROWOFFSET"),
        ("SELECT a INTO u FROM t", "expected no INTO", "revsync sync"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "found WITH", "by itself"),
        ("INSERT INTO t VALUES (1)", "found INSERT", "changes nothing"),
        ("CREATE STREAM t", "found CREATE", "revsync explain"),
        ("SELECT data.* FROM t", "found *", "SELECT data"),
        ("SELECT a", "FROM stream for every table", "write a query such as"),
        ("", "expected SELECT, found the end", "write a query such as"),
        ("SELECT FROM t", "found FROM", "write a query such as"),
        ("SELECT LENGHT(a) FROM t", "found LENGHT", "is it LENGTH?"),
        ("SELECT table.x FROM t", "expected nothing behind table", "data.table"),
        ("SELECT a FROM t WHERE a = NULL", "found NULL", "IS NULL"),
        ("SELECT a FROM 'Person'", "found a text", "double quotes"),
        ("SELECT a FROM t WHERE", "found the end", "write a query such as"),
    ] {
        let error = Query::parse(sql, NOW).map(|_| ()).expect_err(sql);
        assert!(error.what.contains(what), "{sql}: {}", error.what);
        assert!(error.help.as_deref().unwrap_or_default().contains(help), "{sql}: {:?}", error.help);
    }
}

#[test]
fn an_error_shows_the_place_in_the_text() {
    let said = refusal("SELECT State,\n  Fee +* 2\nFROM t");
    assert!(said.contains("at line 2, column 8\n    Fee +* 2\n         ^"), "{said}");
}

#[test]
fn no_text_makes_the_reader_panic_or_overflow() {
    for sql in [
        "(",
        "SELECT ((((",
        "SELECT",
        "SELECT ,",
        "SELECT * FROM",
        "SELECT 'x",
        "SELECT \"x",
        "SELECT a FROM t WHERE a IN",
        "SELECT a..b FROM t",
        "SELECT a[ FROM t",
        "SELECT a[1.5] FROM t",
        "SELECT CASE END FROM t",
        "SELECT CAST(a AS) FROM t",
        "SELECT CAST(a AS NONSENSE) FROM t",
        "SELECT EXTRACT(CENTURY FROM a) FROM t",
        "SELECT ; FROM t",
        "💥",
    ] {
        refusal(sql);
    }
    let nested = format!("SELECT {}1{} FROM t", "(".repeat(10_000), ")".repeat(10_000));
    refusal(&nested);
    refusal(&format!("SELECT a FROM t WHERE {} TRUE", "NOT ".repeat(3_000)));
    refusal(&format!("SELECT a FROM t WHERE a {}", "IS NULL ".repeat(1_000)));
    assert_eq!(one(&format!("0{}", " + 1".repeat(2_000))), "2000");
    assert!(holds(&format!("FALSE{}", " OR State = 'WA'".repeat(1_000))));
}

#[test]
fn a_number_with_separators_is_not_read_as_a_number_and_a_name() {
    for sql in ["SELECT 1_000 FROM t", "SELECT 1e FROM t", "SELECT a FROM t LIMIT 1_000", "SELECT 1e5x FROM t"] {
        assert!(refusal(sql).contains("expected a number, found 1"), "{sql}");
    }
    assert_eq!(query("SELECT 1 thousand FROM t").columns(), ["thousand"]);
}

#[test]
fn a_column_can_be_called_what_sql_calls_something_else() {
    let sql = "SELECT State AS left, State AS group, State AS emit, State AS \"from\" FROM stream AS right";
    assert_eq!(query(sql).columns(), ["left", "group", "emit", "from"]);
    for sql in ["SELECT State AS FROM stream", "SELECT State FROM stream AS WHERE TRUE", "SELECT State FROM stream AS LIMIT 1"] {
        assert!(refusal(sql).contains("expected a name behind AS"), "{sql}");
    }
}

#[test]
fn fields_that_are_called_like_words_of_sql_are_fields() {
    let words =
        ["emit", "group", "order", "count", "left", "right", "over", "any", "all", "some", "join", "end", "key", "date", "timestamp"];
    for word in words {
        let document = format!("{{\"{word}\":3}}");
        let row = Row { data: Some(document.as_bytes()), ..row() };
        for sql in [
            format!("SELECT {word} FROM stream WHERE {word} = 3"),
            format!("SELECT {word} FROM stream WHERE 3 = {word} AND {word} IN (1, 3)"),
            format!("SELECT x.{word} FROM stream x WHERE {word} IS NOT NULL AND NOT {word} < {word}"),
        ] {
            let mut values = Vec::new();
            assert!(query(&sql).answer(&row, &mut values), "{sql}");
        }
    }
}

#[test]
fn emit_changes_in_a_text_a_comment_or_a_quoted_name_is_not_refused() {
    let sql = "SELECT 'EMIT CHANGES', \"EMIT\" changes FROM stream WHERE 'emit changes;' <> State /* EMIT CHANGES */ -- EMIT CHANGES";
    assert!(ask(sql).is_some());
    for sql in
        ["EMIT CHANGES", "SELECT a EMIT CHANGES FROM t", "SELECT a FROM t WHERE (a EMIT\nCHANGES)", "SELECT a FROM t LIMIT 1 emit final;"]
    {
        assert!(refusal(sql).contains("a pull query ends by itself"), "{sql}");
    }
}

#[test]
fn a_statement_may_end_with_semicolons_and_comments() {
    for sql in ["SELECT State FROM stream;", "SELECT State FROM stream; -- all of them", "SELECT State FROM stream ;\r\n; /* x */\r\n"] {
        assert!(ask(sql).is_some(), "{sql}");
    }
    for sql in ["SELECT State FROM stream; SELECT VIN FROM stream", "SELECT State; FROM stream"] {
        assert!(refusal(sql).contains("found ; (the end of a statement)"), "{sql}");
    }
}

#[test]
fn a_table_whose_name_has_dots_may_stand_before_a_name() {
    let ask = |sql: &str| {
        let query = query(sql);
        let mut values = Vec::new();
        assert!(query.answer(&Row { table: "shop.item", ..row() }, &mut values), "{sql}");
        values.iter().map(json).collect::<Vec<_>>()
    };
    for sql in [
        "SELECT shop.item.State, shop.item.data.State FROM shop.item WHERE shop.item.op = 'index'",
        "SELECT \"shop.item\".State, State FROM \"shop.item\"",
        "SELECT i.State, shop.item.State FROM shop.item i",
    ] {
        assert_eq!(ask(sql), [r#""WA""#; 2], "{sql}");
    }
    assert_eq!(ask("SELECT shop.item, shop.x FROM shop.item"), ["null"; 2], "both are fields that the document has not");
}

#[test]
fn the_day_of_today_is_not_taken_for_a_field_that_no_document_has() {
    for word in ["CURRENT_DATE", "current_time", "LOCALTIMESTAMP"] {
        let error = Query::parse(&format!("SELECT a FROM t WHERE d = {word}"), NOW).map(|_| ()).expect_err(word);
        assert!(error.what.contains(&format!("found {word}")), "{}", error.what);
    }
    assert_eq!(one("data.CURRENT_DATE"), "null");
}

#[test]
fn an_interval_without_quotes_is_refused_where_it_stands() {
    assert!(refusal("SELECT ROWTIME + INTERVAL 1 DAY FROM t").contains("expected a number in single quotes behind INTERVAL, found 1"));
    // As deep as it can be written: what is no interval is not copied.
    refusal(&format!("SELECT a + INTERVAL(1{}) FROM t", " + 1".repeat(2_400)));
    refusal(&format!("SELECT a + INTERVAL(1{}, 'x') FROM t", " + 1".repeat(2_400)));
}

#[test]
fn an_error_shows_its_place_behind_wide_letters_tabs_and_windows_lines() {
    let said = refusal("SELECT a\r\nFROM t\r\nWHERE \"日本\" +\t* a\r\n");
    assert!(said.contains("at line 3, column 14\n  WHERE \"日本\" + * a\n                 ^"), "{said}");
}
