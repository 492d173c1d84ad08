//! Positions in a database's log, packed into one number that keeps their order: what a version needs, and what a log sequence number in three
//! parts, or a file and a place in it, is not.
//!
//! Each packing puts the part that counts most first, and refuses a part that is beyond its bits: never is one carried into the next. Numbers from
//! 0 to 2^63-1 come out, whatever goes in. Where each is sound, and where it is not, is said in [the module above](super).

use super::super::choices::Versions;
use super::super::json::Json;
use crate::error::Error;
use crate::record::Fault;
use crate::revision::MAX_VERSION;

/// What numbers the changes of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// MySQL and MariaDB.
    Binlog,
    PostgreSql,
    SqlServer,
    /// The time of the change in milliseconds.
    Time,
}

impl Line {
    /// What numbers the changes of this `source`, by the name of its connector.
    ///
    /// # Errors
    /// A connector without a sound version, where one is asked for.
    pub(super) fn of(source: Json<'_>, versions: Versions) -> Result<Self, Error> {
        if versions == Versions::Timestamp {
            return Ok(Self::Time);
        }
        let [connector, version, namespace] = source.find(["connector", "version", "namespace"]);
        let text = |value: Option<Json<'_>>| Some(value?.unescaped()?.0.into_owned());
        let connector = text(connector);
        match connector.as_deref() {
            Some("mysql" | "mariadb") => Ok(Self::Binlog),
            Some("postgresql") => Ok(Self::PostgreSql),
            Some("sqlserver") => Ok(Self::SqlServer),
            None if text(version).as_deref() == Some("v1.0") && namespace.is_some() => Ok(Self::Time),
            other => Err(refused(other)),
        }
    }

    /// The version of one change.
    ///
    /// # Errors
    /// A field that is missing, is no such place, or is beyond what a version can hold.
    pub(super) fn version(self, source: Json<'_>) -> Result<u64, Fault> {
        let field = |name: &str| source.find([name])[0];
        let text = |name: &str| field(name).and_then(|value| Some(value.unescaped()?.0.into_owned()));
        match self {
            Self::Binlog => {
                let (pos, row) = (whole("source.pos", field("pos"))?, whole("source.row", field("row"))?);
                binlog(&text("file").unwrap_or_default(), pos, row)
            }
            Self::PostgreSql => whole("source.lsn", field("lsn")),
            Self::SqlServer => match text("change_lsn").filter(|lsn| lsn != "NULL") {
                Some(lsn) => sql_server("source.change_lsn", &lsn),
                None => sql_server("source.commit_lsn", &text("commit_lsn").unwrap_or_default()),
            },
            Self::Time => whole("source.ts_ms", field("ts_ms")),
        }
    }
}

/// The longest name of a connector that is repeated in a message.
const LONGEST_NAME: usize = 40;

fn refused(connector: Option<&str>) -> Error {
    let found = match connector {
        Some(connector) => format!("the connector {:?}", connector.chars().take(LONGEST_NAME).collect::<String>()),
        None => "a source that names no connector".to_owned(),
    };
    let why = match connector {
        Some("oracle") => "an SCN is shared by changes of different rows and of one, and what tells them apart is no number",
        Some("db2") => "its log sequence numbers do not fit into 63 bits",
        Some("mongodb") => "its place in the oplog is a time and a count within it, and its documents are texts that are not read",
        Some("vitess") => "a VGTID is a set of places, one for each shard",
        Some("cassandra") => "each node has a commit log of its own",
        _ => "which of its fields numbers the changes of a row is not known",
    };
    Error::usage(format!("source: expected a connector whose changes have a sound version (mysql, mariadb, postgresql, sqlserver), found {found}: {why}"))
        .help(
            "--versions timestamp takes the time of the change (source.ts_ms), with a weaker guarantee: of two changes of a row in one millisecond the \
             one that comes later wins, and a clock that is set back loses changes",
        )
}

/// One part of a packed version: what it is called, what was found, and the bits that it has.
type Part<'a> = (&'a str, u64, u32);

/// Packs parts into one number, the first on top; together they have 63 bits.
fn pack(parts: [Part<'_>; 3]) -> Result<u64, Fault> {
    parts.iter().try_fold(0, |packed, (what, part, bits)| {
        let limit = (1 << bits) - 1;
        if *part <= limit { Ok(packed << bits | part) } else { Err(unusable(what, &format!("a number from 0 to {limit}"), "a larger one")) }
    })
}

fn unusable(what: &str, expected: &str, found: &str) -> Fault {
    Fault::new("unusable_revision", format!("expected {what} to be {expected}, as the version is made of it, found {found}"))
}

/// MySQL and MariaDB: the number at the end of the binlog file's name, the event's place in that file in bytes, and the row's place in the event
/// (Debezium, MySQL connector, `source.file`, `source.pos`, `source.row`), in 18, 32 and 13 bits. Places in a binlog have 32 bits (MySQL internals,
/// binlog event header), and an event holds some thousand rows with `binlog_row_event_max_size` as it is by itself.
///
/// # Errors
/// A file without a number at its end, or a part beyond its bits.
pub(super) fn binlog(file: &str, pos: u64, row: u64) -> Result<u64, Fault> {
    let number = file.rsplit_once('.').map(|(_, digits)| digits).filter(|digits| are_digits(digits)).ok_or_else(|| {
        unusable("source.file", "the name of a binlog file that ends in its number, such as binlog.000042", "something else")
    })?;
    // More digits than a number can have are as much too large as the largest.
    let number = number.parse().unwrap_or(u64::MAX);
    pack([("the number of source.file", number, 18), ("source.pos", pos, 32), ("source.row", row, 13)])
}

/// SQL Server: the sequence number of the virtual log file, the block's offset in it, and the slot in the block (SQL Server transaction log guide, "log
/// sequence number"; Debezium, SQL Server connector, `source.change_lsn`), in 22, 25 and 16 bits.
///
/// # Errors
/// Anything but 8, 8 and 4 hexadecimal digits with colons between them, or a part beyond its bits. `what` names the field.
pub(super) fn sql_server(what: &str, lsn: &str) -> Result<u64, Fault> {
    let part = |range: std::ops::Range<usize>| {
        let digits = lsn.get(range).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        u64::from_str_radix(digits, 16).ok()
    };
    let colons = lsn.len() == 22 && lsn.as_bytes()[8] == b':' && lsn.as_bytes()[17] == b':';
    let (Some(file), Some(block), Some(slot), true) = (part(0..8), part(9..17), part(18..22), colons) else {
        return Err(unusable(what, "a log sequence number such as 00000027:00000ac0:0003", "something else"));
    };
    let of = |of: &str| format!("the {of} of {what}");
    pack([(&of("virtual log file"), file, 22), (&of("block"), block, 25), (&of("slot"), slot, 16)])
}

/// A number that is a version as it is: a log sequence number of PostgreSQL, or milliseconds since 1970; and a part of one that is packed.
///
/// # Errors
/// Anything but a whole number from 0 to 2^63-1, or such a one as text. `what` names the field.
pub(super) fn whole(what: &str, value: Option<Json<'_>>) -> Result<u64, Fault> {
    let found = value.map_or("none", |value| if value.is_null() { "null" } else { "something else" });
    value.and_then(Json::version).ok_or_else(|| unusable(what, &format!("a whole number from 0 to {MAX_VERSION}"), found))
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lsn(parts: (u64, u64, u64)) -> String {
        format!("{:08x}:{:08x}:{:04X}", parts.0, parts.1, parts.2)
    }

    fn mysql(parts: (u64, u64, u64)) -> Result<u64, Fault> {
        binlog(&format!("mysql-bin.{:06}", parts.0), parts.1, parts.2)
    }

    /// Numbers of few bits as often as of many, so that neighbours and limits are met.
    fn bits(bits: u32) -> impl Strategy<Value = u64> {
        (0..=bits, any::<u64>()).prop_map(|(width, number)| if width == 0 { 0 } else { number >> (64 - width) })
    }

    fn whole_of(json: &str) -> Result<u64, Fault> {
        whole("source.lsn", Some(Json::parse(json.as_bytes()).unwrap()))
    }

    proptest! {
        #[test]
        fn places_in_binlogs_keep_their_order(a in (bits(18), bits(32), bits(13)), b in (bits(18), bits(32), bits(13))) {
            let (x, y) = (mysql(a).unwrap(), mysql(b).unwrap());
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            prop_assert!(x <= MAX_VERSION);
        }

        #[test]
        fn log_sequence_numbers_keep_their_order(a in (bits(22), bits(25), bits(16)), b in (bits(22), bits(25), bits(16))) {
            let (x, y) = (sql_server("", &lsn(a)).unwrap(), sql_server("", &lsn(b)).unwrap());
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            prop_assert!(x <= MAX_VERSION);
        }

        #[test]
        fn a_part_beyond_its_bits_is_refused_and_never_carried(a in (bits(40), bits(48), bits(30))) {
            let fits = a.0 < 1 << 18 && a.1 < 1 << 32 && a.2 < 1 << 13;
            prop_assert_eq!(mysql(a).is_ok(), fits);
        }

        #[test]
        fn a_log_sequence_number_beyond_its_bits_is_refused(a in (bits(32), bits(32), bits(16))) {
            let fits = a.0 < 1 << 22 && a.1 < 1 << 25;
            prop_assert_eq!(sql_server("", &lsn(a)).is_ok(), fits);
        }

        #[test]
        fn a_whole_number_is_itself_as_a_number_and_as_text(number in bits(64)) {
            for json in [format!("{number}"), format!("\"{number}\"")] {
                prop_assert_eq!(whole_of(&json).ok(), (number <= MAX_VERSION).then_some(number));
            }
        }

        #[test]
        fn no_text_is_taken_for_what_it_is_not(text in "[0-9a-f:.x-]{0,24}") {
            let shape = text.len() == 22 && text.bytes().enumerate().all(|(at, byte)| if at == 8 || at == 17 { byte == b':' } else { byte.is_ascii_hexdigit() });
            prop_assert!(shape || sql_server("", &text).is_err());
            let number = text.rsplit('.').next().is_some_and(|end| text.contains('.') && are_digits(end));
            prop_assert!(number || binlog(&text, 0, 0).is_err());
        }
    }

    #[test]
    fn the_limits_of_each_part_are_what_its_bits_hold() {
        assert_eq!(mysql((0, 0, 0)), Ok(0));
        assert_eq!(mysql((262_143, 4_294_967_295, 8_191)), Ok(MAX_VERSION));
        for beyond in [(262_144, 0, 0), (0, 4_294_967_296, 0), (0, 0, 8_192)] {
            assert_eq!(mysql(beyond).unwrap_err().kind, "unusable_revision", "{beyond:?}");
        }
        assert_eq!(sql_server("", "003fffff:01ffffff:ffff"), Ok(MAX_VERSION));
        assert!(sql_server("", "00400000:00000000:0000").is_err() && sql_server("", "00000000:02000000:0000").is_err());
        assert_eq!(sql_server("", "00000027:00000ac0:0003"), Ok(0x27 << 41 | 0xAC0 << 16 | 3));
        assert_eq!(sql_server("", "00000027:00000AC0:0003"), sql_server("", "00000027:00000ac0:0003"));
    }

    #[test]
    fn what_is_no_place_in_a_log_says_what_was_expected_and_no_value() {
        for file in ["", "binlog", "binlog.", "binlog.00x", "binlog.-1", "binlog.+1", "000042", "binlog.000042.idx", "ä.１"] {
            assert!(binlog(file, 0, 0).unwrap_err().reason.starts_with("expected source.file to be the name of a binlog file"), "{file}");
        }
        let digits = "9".repeat(40);
        let fault = binlog(&format!("binlog.{digits}"), 0, 0).unwrap_err();
        assert_eq!(
            fault.reason,
            "expected the number of source.file to be a number from 0 to 262143, as the version is made of it, found a larger one"
        );
        for lsn in [
            "",
            "00000027:00000ac0",
            "00000027-00000ac0-0003",
            "00000027:00000ac0:00034",
            "0000002:700000ac0:0003",
            "+0000027:00000ac0:0003",
        ] {
            assert!(sql_server("source.change_lsn", lsn).unwrap_err().reason.contains("source.change_lsn"), "{lsn}");
        }
        assert!(sql_server("", "ääää:00000ac0:0003xxx").is_err());
    }

    #[test]
    fn only_whole_numbers_in_range_are_versions() {
        assert_eq!(whole_of("0"), Ok(0));
        assert_eq!(whole_of("9223372036854775807"), Ok(MAX_VERSION));
        assert_eq!(whole_of("\"12\""), Ok(12));
        for wrong in ["9223372036854775808", "-1", "12.0", "1e3", "true", "{}", "\"\"", "\"1\\u0030\"", "\"+5\"", "\" 5\"", "null"] {
            assert_eq!(whole_of(wrong).unwrap_err().kind, "unusable_revision", "{wrong}");
        }
        assert!(whole("source.lsn", None).unwrap_err().reason.ends_with("found none"));
    }
}
