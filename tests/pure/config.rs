//! The configuration file: what is read, what is refused and with which words.

use std::time::Duration;

use revsync::aws::Aws;
use revsync::codec::{Format, Rows};
use revsync::config::{self, ByteSize, File, Overrides, Settings, SinkUrl, SourceUrl, Span};
use revsync::error::Error;
use revsync::plan::mapping::Deletes;
use revsync::sink::opensearch;
use revsync::sink::opensearch::config::{Access, Password};

use crate::golden::assert_golden;

fn nothing(_: &str) -> Option<String> {
    None
}

fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn read(text: &str) -> Result<File, Error> {
    config::parse(text, "revsync.toml", &nothing)
}

fn resolved(text: &str, options: Overrides) -> Result<Settings, Error> {
    Settings::resolve(read(text)?, options, &nothing)
}

/// Takes the comment sign off the keys that `keep` wants; documentation has a space after it and stays.
fn uncommented(example: &str, keep: impl Fn(&str) -> bool) -> String {
    let lines = example.lines().map(|line| match line.strip_prefix('#') {
        Some(code) if !code.starts_with(' ') && keep(code) => code,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_is_the_golden_file() {
    assert_golden("config/example.toml", &config::example());
}

#[test]
fn the_schema_is_the_golden_file() {
    assert_golden("config/schema.json", &config::schema());
}

#[test]
fn the_example_as_it_stands_is_the_defaults() {
    assert_eq!(read(&config::example()).unwrap(), File::default());
}

#[test]
fn every_key_of_the_example_that_has_a_default_stands_with_it() {
    let optional = [
        "name",
        "url",
        "auth",
        "username",
        "password",
        "password_file",
        "password_secret",
        "ca_file",
        "client_certificate_file",
        "region",
        "assume_role_arn",
        "large",
        "listen",
        "group",
        "index",
    ];
    let before_the_rules = config::example().split("\n#[[table]]").next().unwrap().to_owned();
    // Properties of a client have names with dots in quotes.
    let text = uncommented(&before_the_rules, |code| !code.starts_with('"') && !optional.contains(&code.split(" = ").next().unwrap()));
    assert!(text.contains("\nrequest_bytes = \"5MiB\"\n") && text.contains("\ncreate_index = true\n"));
    assert_eq!(read(&text).unwrap(), File::default());
}

#[test]
fn every_key_of_the_example_can_be_uncommented_and_every_key_of_the_schema_is_in_it() {
    let text = uncommented(&config::example(), |_| true);
    let file = config::parse(&text, "example.toml", &variables(&[("SEARCH_PASSWORD", "pw"), ("KAFKA_PASSWORD", "pw")])).unwrap();
    assert_eq!(file.table.len(), 1);
    let written = toml::from_str::<serde_json::Value>(&text).unwrap();
    let schema = serde_json::from_str::<serde_json::Value>(&config::schema()).unwrap();
    let tables = [("", "/properties"), ("/source", "/$defs/SourceSection/properties"), ("/sink", "/$defs/SinkSection/properties")];
    let more = [
        ("/sink/aws", "/$defs/Aws/properties"),
        ("/journal", "/$defs/JournalSection/properties"),
        ("/delivery", "/$defs/DeliverySection/properties"),
        ("/dead_letters", "/$defs/DeadLettersSection/properties"),
        ("/dead_letters/aws", "/$defs/Aws/properties"),
        ("/table/0", "/$defs/TableRule/properties"),
    ];
    for (table, properties) in tables.into_iter().chain(more) {
        let known: Vec<_> = schema.pointer(properties).unwrap().as_object().unwrap().keys().collect();
        let used: Vec<_> = written.pointer(table).unwrap().as_object().unwrap().keys().collect();
        assert_eq!(known, used, "{table}");
    }
}

#[test]
fn every_key_is_documented_and_its_documentation_ends_with_its_default() {
    let schema = serde_json::from_str::<serde_json::Value>(&config::schema()).unwrap();
    for section in ["SourceSection", "SinkSection", "Aws", "JournalSection", "DeliverySection", "DeadLettersSection", "TableRule"] {
        for (key, property) in schema.pointer(&format!("/$defs/{section}/properties")).unwrap().as_object().unwrap() {
            let text = property["description"].as_str().unwrap_or_default();
            let last = text.split("Default: ").nth(1).is_some_and(|default| default.ends_with('.'));
            assert!(last || text.ends_with("Required.") || key == "aws", "{section}.{key}: {text:?}");
        }
    }
}

#[test]
fn the_file_of_the_lambda_package_has_tombstones_for_every_table() {
    let settings = resolved(include_str!("../../infra/revsync.toml"), Overrides::default()).unwrap();
    let rules: Vec<_> = settings.tables.iter().map(|rule| (rule.name.as_str(), rule.deletes)).collect();
    assert_eq!(rules, [("*", Deletes::Tombstone)]);
}

#[test]
fn an_empty_file_and_no_options_give_the_documented_defaults() {
    let settings = resolved("", Overrides::default()).unwrap();
    assert_eq!(settings.sink.url, SinkUrl::Local("revsync.db".into()));
    assert_eq!(settings.dead_letters.place.to_string(), "file:revsync-dead-letters.jsonl");
    assert!(settings.sink.opensearch.is_none());
    assert_eq!((settings.source.format, settings.source.retention), (Format::Auto, Duration::from_secs(168 * 3600)));
    assert_eq!(settings.delivery.request_bytes, 5 * 1024 * 1024);
    assert_eq!(settings.delivery.give_up_after, Duration::from_secs(300));
    assert!(settings.source.required().unwrap_err().help.unwrap().contains("[source]"));
}

#[test]
fn an_address_and_nothing_else_is_an_opensearch_sink_with_the_defaults() {
    let settings = resolved("[sink]\nurl = \"http://h:9200\"", Overrides::default()).unwrap();
    assert_eq!(settings.opensearch(), Ok(&opensearch::Config::new("http://h:9200".parse().unwrap())));
}

#[test]
fn a_file_says_everything_that_its_keys_say() {
    let text = r#"
name = "ledger"
[source]
url = "capture/"
format = "qldb"
verify_hashes = true
retention = "30d"
[sink]
url = "https://search.example.com"
auth = "aws"
create_index = false
gc_deletes = "7d"
[sink.aws]
region = "eu-west-1"
[delivery]
request_bytes = "9MiB"
linger = "0s"
gzip = false
[[table]]
name = "shop.*"
deletes = "keep"
"#;
    let settings = resolved(text, Overrides::default()).unwrap();
    assert_eq!(settings.source.url, Some(SourceUrl::Path("capture/".into())));
    assert!(settings.source.verify_hashes);
    assert_eq!(settings.source.retention, Duration::from_secs(30 * 86_400));
    let sink = settings.opensearch().unwrap();
    assert!(!sink.create_index && !sink.gzip);
    assert_eq!(sink.gc_deletes, "168h", "OpenSearch's own documentation writes hours");
    assert_eq!(sink.access, Access::Aws(Aws { region: Some("eu-west-1".into()), assume_role_arn: None }));
    assert_eq!((settings.delivery.request_bytes, settings.delivery.linger), (9 * 1024 * 1024, Duration::ZERO));
    assert_eq!((settings.tables[0].deletes, settings.name.as_str()), (Deletes::Keep, "ledger"));
}

#[test]
fn an_option_comes_before_the_file() {
    let text = "[source]\nverify_hashes = true\n[sink]\nurl = \"local:file.db\"\n[delivery]\ngzip = true\nrequest_bytes = \"1MiB\"\n[dead_letters]\nurl = \"file:a\"";
    let options = Overrides {
        sink: Some("http://option:9200".into()),
        verify_hashes: Some(false),
        gzip: Some(false),
        request_bytes: Some(ByteSize(7)),
        linger: Some(Span(Duration::from_millis(1))),
        retention: Some(Span(Duration::from_secs(1))),
        dead_letters: Some("file:b".into()),
        ..Overrides::default()
    };
    let settings = resolved(text, options).unwrap();
    assert_eq!(settings.sink.url.to_string(), "http://option:9200");
    assert!(!settings.source.verify_hashes && !settings.opensearch().unwrap().gzip);
    assert_eq!((settings.delivery.request_bytes, settings.delivery.linger), (7, Duration::from_millis(1)));
    assert_eq!((settings.dead_letters.place.to_string().as_str(), settings.source.retention), ("file:b", Duration::from_secs(1)));
}

#[test]
fn the_indices_of_tombstones_and_the_tables_of_plain_deletes_are_told_from_the_rules() {
    let told = |text: &str| {
        let settings = resolved(text, Overrides::default()).unwrap();
        let (indices, untold) = settings.tombstone_indices();
        let plain = settings.plainly_deleted().map(|tables| tables.join(" "));
        (indices.join(" "), untold.join(" "), plain)
    };
    let rule = |name: &str, more: &str| format!("[[table]]\nname = \"{name}\"\n{more}\n");
    let tombstone = "deletes = \"tombstone\"";
    assert_eq!(told(""), (String::new(), String::new(), None));
    let rules = [
        rule("Person", tombstone),
        rule("shop.*", tombstone),
        rule("crm.*", &format!("index = \"crm\"\n{tombstone}")),
        rule("Customer", &format!("index = \"crm\"\n{tombstone}")),
        rule("Audit", "deletes = \"keep\""),
        rule("Log", ""),
        rule("*", "deletes = \"delete\""),
    ];
    assert_eq!(told(&rules.concat()), ("person crm".to_owned(), "shop.*".to_owned(), Some("Log *".to_owned())));
    let of_cells = [rule("Item", "rows = \"cells\""), rule("Kept", "rows = \"cells\"\ndeletes = \"keep\""), rule("Log", "")];
    assert_eq!(told(&of_cells.concat()), ("item kept".to_owned(), String::new(), Some("Log".to_owned())), "they leave tombstones");
    let options = || Overrides { rows: Some(Rows::Cells), ..Overrides::default() };
    assert_eq!(resolved("", options()).unwrap().plainly_deleted(), Some(vec![]));
    let some_whole = resolved(&[rule("Log", "rows = \"full\""), rule("*", "")].concat(), options()).unwrap();
    assert_eq!(some_whole.plainly_deleted(), Some(vec!["Log"]));
    assert_eq!(told(&rules[..5].concat()).2.as_deref(), Some(""));
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_place_and_a_suggestion() {
    let mut report = String::new();
    for text in [
        "[delivery]\ngzip = true\nrequst_bytes = \"1MiB\"",
        "[source]\nurl = \"x\"\n[sink]\n  regoin = \"eu-west-1\"",
        "[sink]\nregion = \"eu-west-1\"",
        "gzip = true",
        "[source]\nname = \"ledger\"",
        "[snk]\nurl = \"local:x.db\"",
        "[checkpoint]\nurl = \"sink\"",
        "[http]\nlisten = \"localhost:8080\"",
        "[[table]]\nname = \"A\"\n[[table]]\nname = \"B\"\nfeilds = [\"x\"]",
        "[[table]]\nindex = \"a\"",
        "[delivery]\nrequest_bytes = 5",
        "[delivery]\nrequest_bytes = \"5 parsecs\"",
        "[delivery]\nlinger = \"5\"",
        "[delivery]\nrequests_in_flight = \"four\"",
        "[delivery]\nrequests_in_flight = -1",
        "[source]\nformat = \"qlbd\"",
        "[source]\nverify_hashes = \"yes\"",
        "[sink]\npassword = 12345",
        "[sink]\npassword = \"${NOT_SET}\"",
        "[sink]\nurl = \"local:${unfinished\"",
        "[sink]\nurl = \"local:${WRONG NAME}\"",
        "[sink]\nurl = local:x.db",
        "[sink\n",
        "name = \"a\"\nname = \"b\"",
        "# Ünïcödé\n[sink]\nürl = \"x\"",
    ] {
        report.push_str(&format!("{}\n", text.lines().map(|line| format!("    {line}\n")).collect::<String>().trim_end()));
        report.push_str(&format!("{}\n\n", read(text).unwrap_err()));
    }
    assert_golden("messages/config_file.txt", &report);
}

#[test]
fn values_that_make_no_sense_together_are_refused() {
    let mut report = String::new();
    for text in [
        "[delivery]\nrequest_bytes = \"10MiB\"",
        "[delivery]\nrequest_bytes = \"0B\"",
        "[delivery]\nrequests_in_flight = 0",
        "[delivery]\nrequest_timeout = \"0s\"",
        "[sink]\nurl = \"localhost:9200\"",
        "[sink]\nurl = \"http://h:9200\"\nauth = \"basic\"",
        "[sink]\nurl = \"http://h:9200\"\nusername = \"revsync\"",
        "[source]\nurl = \"kinesis://the ledger\"",
        "[source]\nurl = \"kafka://h:9092\"",
        "[source]\nidle_time_between_reads = \"100ms\"",
        "[source]\nshard_timeout = \"0s\"",
        "[dead_letters]\nurl = \"letters.jsonl\"",
        "[[table]]\nname = \"A\"\n[[table]]\nname = \"A\"",
        "[[table]]\nname = \"A\"\nmode = \"history\"\n[[table]]\nname = \"A\"\nmode = \"history\"",
        "[[table]]\nname = \"A\"\n[[table]]\nname = \"A\"\nmode = \"history\"\ndecimals = \"string\"",
        "[[table]]\nname = \"*\"\nkey = [\"a\"]\n[[table]]\nname = \"A\"\nmode = \"history\"\nkey = [\"b\"]",
        "[[table]]\nname = \"\"",
        "[[table]]\nname = \"A\"\nfields = [\"a..b\"]",
    ] {
        report.push_str(&format!("{}\n", text.lines().map(|line| format!("    {line}\n")).collect::<String>().trim_end()));
        report.push_str(&format!("{}\n\n", resolved(text, Overrides::default()).unwrap_err()));
    }
    assert_golden("messages/config_values.txt", &report);
}

#[test]
fn an_action_that_revsync_does_not_know_is_refused_with_those_that_it_knows() {
    let refused = read("[[table]]\nname = \"A\"\ndeletes = \"remove\"").unwrap_err().to_string();
    assert!(["revsync.toml:3:", "deletes", "remove", "delete", "keep"].iter().all(|part| refused.contains(part)), "{refused}");
    for action in ["create", "update", "upsert", "remove"] {
        let refused = read(&format!("[[table]]\nname = \"A\"\naction = \"{action}\"")).unwrap_err();
        assert!(refused.what.contains("unknown key \"action\"") && refused.help.is_some(), "{refused}");
    }
}

#[test]
fn the_environment_is_put_in_where_it_is_asked_for_and_nowhere_else() {
    let text = "name = \"${A}-${B}-$${A}-$A-${EMPTY}\"\n[[table]]\nname = \"T\"\nfields = [\"${A}\"]";
    let file = config::parse(text, "f", &variables(&[("A", "x\"\\n${B}"), ("B", "y"), ("EMPTY", "")])).unwrap();
    assert_eq!(file.name.as_deref(), Some("x\"\\n${B}-y-${A}-$A-"));
    assert_eq!(file.table[0].fields.as_deref(), Some(["x\"\\n${B}".to_owned()].as_slice()));
}

#[test]
fn a_password_comes_from_the_environment_then_from_the_configuration_file_then_from_the_address() {
    let given = |text: &str, options: Overrides, set: &[(&str, &str)]| {
        let settings = Settings::resolve(read(text).unwrap(), options, &variables(set)).unwrap();
        match settings.sink.opensearch?.access {
            Access::Basic { password: Password::Given(password), .. } => Some(password.reveal().to_owned()),
            Access::Basic { password: Password::File(path), .. } => Some(format!("in {}", path.display())),
            Access::Basic { password: Password::Stored(id), .. } => Some(format!("stored as {id}")),
            Access::Open | Access::Aws(_) | Access::Aoss(_) => None,
        }
    };
    let with_url = || Overrides { sink: Some("http://ann:from-url@h:9200".into()), ..Overrides::default() };
    let with_file = || Overrides { password_file: Some("option".into()), ..with_url() };
    assert_eq!(given("", with_url(), &[]).as_deref(), Some("from-url"));
    assert_eq!(given("[sink]\npassword_file = \"file\"", with_url(), &[]).as_deref(), Some("in file"));
    assert_eq!(given("[sink]\npassword_secret = \"secret\"", with_url(), &[]).as_deref(), Some("stored as secret"));
    assert_eq!(given("[sink]\npassword = \"written\"", with_url(), &[]).as_deref(), Some("written"));
    assert_eq!(given("[sink]\npassword = \"written\"", with_file(), &[]).as_deref(), Some("in option"));
    let with_secret = Overrides { password_secret: Some("option".into()), ..with_url() };
    assert_eq!(given("[sink]\npassword_file = \"file\"", with_secret, &[]).as_deref(), Some("stored as option"));
    let variable = [("REVSYNC_PASSWORD", "from variable")];
    assert_eq!(given("[sink]\npassword_file = \"file\"", with_url(), &variable).as_deref(), Some("from variable"));
    assert_eq!(given("[sink]\nauth = \"none\"", with_url(), &[]), None);
    assert_eq!(given("", Overrides { sink: Some("local:x.db".into()), ..with_file() }, &[]), None);
}

#[test]
fn two_passwords_in_one_place_are_refused_and_not_repeated() {
    let address = || Overrides { sink: Some("http://ann:from-url@h:9200".into()), ..Overrides::default() };
    let refused = |text: &str, options: Overrides, set: &[(&str, &str)]| {
        let error = Settings::resolve(read(text).unwrap(), options, &variables(set)).unwrap_err();
        assert!(error.help.is_some() && !error.to_string().contains("hunter2"), "{error}");
        error.what
    };
    let found = |both: &str| format!("sink: expected one password, found both {both}");
    for (keys, both) in [
        ("password = \"hunter2\"\npassword_file = \"f\"", "password and password_file"),
        ("password = \"hunter2\"\npassword_secret = \"s\"", "password and password_secret"),
        ("password_secret = \"s\"\npassword_file = \"f\"", "password_file and password_secret"),
    ] {
        assert_eq!(refused(&format!("[sink]\n{keys}"), address(), &[]), found(both));
    }
    let file = || Overrides { password_file: Some("f".into()), ..address() };
    assert_eq!(refused("", file(), &[("REVSYNC_PASSWORD", "hunter2")]), found("REVSYNC_PASSWORD and --password-file"));
    let both = Overrides { password_secret: Some("s".into()), ..file() };
    assert_eq!(refused("", both, &[]), found("--password-file and --password-secret"));
}

#[test]
fn a_secret_that_names_its_user_needs_no_user_name() {
    let text = "[sink]\nurl = \"https://h\"\npassword_secret = \"search\"";
    let access = |options| resolved(text, options).unwrap().opensearch().unwrap().access.clone();
    let stored =
        |username: Option<&str>| Access::Basic { username: username.map(str::to_owned), password: Password::Stored("search".to_owned()) };
    assert_eq!(access(Overrides::default()), stored(None));
    assert_eq!(access(Overrides { username: Some("ann".into()), ..Overrides::default() }), stored(Some("ann")));
}

#[test]
fn every_variable_of_the_function_is_in_its_table_with_a_key_that_exists_and_no_other_is() {
    let readme = include_str!("../../infra/README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with("Configuration of the function\n")).expect("the section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `REVSYNC_"));
    let rows: Vec<(String, &str)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            assert!(cells.len() == 4 && !cells[2].is_empty(), "{row}");
            (format!("REVSYNC_{}", cells[0]), cells[1])
        })
        .collect();
    let mut documented: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    let taken = revsync::cli::function_variables();
    let mut taken: Vec<&str> = taken.iter().map(String::as_str).collect();
    documented.sort_unstable();
    taken.sort_unstable();
    assert_eq!(documented, taken);
    let example = toml::from_str::<serde_json::Value>(&uncommented(&config::example(), |_| true)).unwrap();
    for (name, key) in rows.iter().filter(|(name, _)| name != "REVSYNC_CONFIG") {
        assert!(example.pointer(&format!("/{}", key.replace('.', "/"))).is_some(), "{name}: no key {key:?} in the file");
    }
}

#[test]
fn nothing_that_is_printed_for_a_developer_holds_a_password() {
    let text = "[sink]\nurl = \"https://h\"\nusername = \"ann\"\npassword = \"hunter2\"";
    assert!(!format!("{:?}", read(text).unwrap()).contains("hunter2"));
    assert!(!format!("{:?}", resolved(text, Overrides::default()).unwrap()).contains("hunter2"));
    let in_url = "[sink]\nurl = \"https://ann:hunter2@h\"";
    assert!(!format!("{:?}", resolved(in_url, Overrides::default()).unwrap()).contains("hunter2"));
}
