//! `query SOURCE 'SELECT …'`: ask a stream a question, and stop.
//!
//! A wrong statement is refused before anything is opened. Rows go to standard output as they are found, everything else to standard error.
//! Opens no sink, and writes nothing.

mod forms;
mod said;
mod table;

use std::time::Instant;

use clap::Args;
use indicatif::HumanCount;

use super::options::{ScanOptions, SourceOptions};
use super::{Context, Progress, Terminal, line};
use crate::error::{Error, Exit, Kind};
use crate::plan::query::{Query, Value};
use crate::run::clock;
use crate::run::deliver::interrupted;
use crate::run::query::{End, Rows, Scanned, Tables, decoder, query};
use crate::source::scan::Scan;
use forms::Form;

const EXAMPLES: &str = "\
Examples:
  revsync query capture/ledger.ion 'SELECT * FROM stream LIMIT 10'
      the first ten rows, whatever their tables are
  revsync query capture/ \"SELECT metadata.id, metadata.version, data.City FROM Person WHERE data.City = 'Seattle'\"
  revsync query capture/ 'SELECT metadata.id, metadata.txTime FROM Person WHERE op = '\\''delete'\\'''
      what was deleted, and when
  revsync query kafka://broker:9092/shop.item --key shop.item=sku 'SELECT sku, ROWPARTITION, ROWOFFSET FROM \"shop.item\" LIMIT 5'
  revsync --json query capture/ 'SELECT data FROM stream' | jq .data

Columns:
  table, op            the table's name, and index, delete or redacted
  data                 the document, null where the row is a delete or a
                       redaction; a name by itself is one of its fields
  metadata             id, version, and what else the source knows (of QLDB
                       txTime, txId)
  blockAddress, hash   of QLDB; * stands for all up to here
  ROWTIME              when the stream took the record in; null where a file
                       does not tell
  ROWPARTITION, ROWOFFSET
                       where the record is: partition and offset, shard and
                       sequence number, file and byte
";

/// The language in short, for whoever has nothing but the command.
const LANGUAGE: &str = "\
Language:
  statement    SELECT * or expression [AS name], … FROM TABLE [[AS] alias]
               [WHERE condition] [LIMIT n]; FROM stream has every table
  names        State, Owners.PrimaryOwner.PersonId, Owners.Second[0].Id;
               letter case counts; \"f:stock\" in double quotes where it has other
               signs or is a word of SQL; data.op where op would be the column
  values       'text' (a quote in it is doubled), 442.30, TRUE, FALSE, NULL,
               DATE '2017-08-21', TIMESTAMP '2017-08-21T10:00:00.5+02:00'
  conditions   = <> != < <= > >=; [NOT] IN (…), [NOT] BETWEEN … AND …,
               [NOT] LIKE '…%_' [ESCAPE '…']; IS [NOT] NULL, MISSING, TRUE,
               FALSE or UNKNOWN; AND, OR, NOT, parentheses
  arithmetic   + - * / % on numbers, || between texts; a time + or -
               INTERVAL '2' HOUR (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR)
  types        CAST(x AS type): VARCHAR(n), CHAR(n), TEXT, INTEGER, BIGINT,
               DECIMAL(p, s), DOUBLE, BOOLEAN, TIMESTAMP, DATE; null where x
               cannot be converted
  choice       CASE WHEN … THEN … ELSE … END, CASE x WHEN …
  functions    COALESCE, NULLIF, GREATEST, LEAST
   of texts    UPPER, LOWER, LENGTH, SUBSTRING(x FROM 1 FOR 2) or (x, 1, 2),
               LEFT(x, n), RIGHT(x, n), TRIM([LEADING or TRAILING] 'ab' FROM x),
               LTRIM, RTRIM, REPLACE(x, part, by), CONCAT, POSITION(part IN x),
               STRPOS(x, part), STARTS_WITH(x, part)
   of numbers  ABS, SIGN, FLOOR, CEIL, ROUND(x, digits), MOD
   of times    NOW(), EXTRACT(YEAR FROM x) down to SECOND, and EPOCH,
               DATE_TRUNC('day', x), TO_TIMESTAMP(x) of a text or milliseconds;
               in UTC
   of lists    CARDINALITY; in a comparison a path that leads to a list means
               any of its elements

  What is null, missing or of another type matches neither a comparison nor NOT
  of it. Numbers are compared and computed to their last digit, texts by code
  points, timestamps as points in time. WHERE in a rule ([[table]]) is the same
  language; there every name is a field of the document.
";

const EXITS: &str = "\
Exit codes, as grep's:
  0  rows were found
  1  none was, or it is not proven that everything was looked at
  2  failed, or interrupted";

/// Ask a stream a question: find records in it by SQL, now
///
/// Scans a source from its earliest record to the end that it has now, prints the rows for which the statement holds as they are found, and
/// stops. Every revision is a row, deletes and redactions too; no index is needed, and rules of a configuration that map tables have no part in
/// it.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n{EXITS}"), after_long_help = format!("{EXAMPLES}\n{LANGUAGE}\n{EXITS}"))]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    scan: ScanOptions,
    /// What to find: SELECT … FROM TABLE or stream [WHERE …] [LIMIT n]
    #[arg(value_name = "STATEMENT")]
    statement: Option<String>,
    /// What a statement without quotes around it comes to: words.
    #[arg(hide = true)]
    words: Vec<String>,
    /// Print the rows as CSV, with a heading
    #[arg(long, env = "REVSYNC_CSV", hide_env_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    csv: bool,
}

impl Arguments {
    /// Where to look, and for what. A statement by itself is one about the source that is configured.
    fn parted(&self, context: &Context<'_>) -> Result<(SourceOptions, &str), Error> {
        let mut source = self.source.clone();
        let example = "revsync query SOURCE 'SELECT * FROM stream LIMIT 10'";
        if !self.words.is_empty() {
            return Err(Error::usage("expected the statement as one argument, found several: put it in quotes").help(example));
        }
        if let Some(statement) = &self.statement {
            let is_first = source.source.as_deref().is_some_and(is_statement);
            if is_first && !is_statement(statement) {
                return Err(Error::usage("expected the source and then the statement, found the statement first").help(example));
            }
            return Ok((source, statement));
        }
        let Some(only) = &self.source.source else {
            return Err(Error::usage("expected a source and a statement, found neither").help(example));
        };
        if !is_statement(only) {
            return Err(Error::usage(format!("expected a source and a statement that begins with SELECT, found only {only}")).help(example));
        }
        // It stood where the source stands, and so the variable was not looked at.
        source.source = (context.environment)("REVSYNC_SOURCE").filter(|source| !source.is_empty());
        Ok((source, only))
    }
}

/// Whether a text is a statement and not a source.
fn is_statement(text: &str) -> bool {
    let text = text.trim_start();
    let first = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    text[..first].eq_ignore_ascii_case("select") && first < text.len()
}

/// Whether rows are printed as CSV, and whether as JSON. An option comes before the variable of the other.
fn one_form(csv: bool, json: bool, context: &Context<'_>) -> Result<(bool, bool), Error> {
    if !(csv && json) {
        return Ok((csv, json));
    }
    // What the option parser takes for no; it has refused what is neither.
    let is_no = |value: &str| ["n", "no", "f", "false", "off", "0"].iter().any(|no| value.eq_ignore_ascii_case(no));
    let by_variable = |name| (context.environment)(name).is_some_and(|value| !is_no(&value));
    match (by_variable("REVSYNC_CSV"), by_variable("REVSYNC_JSON")) {
        (true, false) => Ok((false, true)),
        (false, true) => Ok((true, false)),
        (true, true) => Err(Error::usage("expected one form of output, found both REVSYNC_CSV and REVSYNC_JSON")),
        (false, false) => Err(Error::usage("expected one form of output, found both --csv and --json")),
    }
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let started = Instant::now();
    let terminal = &context.terminal;
    let (source, text) = arguments.parted(context)?;
    let (csv, json) = one_form(arguments.csv, terminal.json, context)?;
    let statement = Query::parse(text, clock::millis())?;
    let settings = context.settings(&[&source, &arguments.scan])?;
    settings.source.required()?;
    let (mut decoder, tables) = decoder(&statement, line::decoding(&settings));
    let names = statement.columns();
    let form = match (csv, json) {
        (true, _) => Form::csv(names),
        (false, true) => Form::json(names),
        (false, false) => Form::table(names, terminal),
    };
    let mut printer = Printer { terminal, form, out: Vec::new(), progress: None, is_read: true };
    let mut scanned = Scanned::default();
    let result = match statement.limit() {
        // There is nothing to open for it.
        Some(0) => Ok(End::LimitReached),
        _ => {
            let stop = line::stop_signal()?;
            let mut stopped = stop.clone();
            let opened = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => Err(interrupted()),
                scan = line::scan(&settings) => scan,
            };
            match opened {
                Ok(scan) => {
                    printer.begin(&scan);
                    query(scan, &statement, &mut decoder, &mut printer, &mut scanned, stop).await
                }
                Err(error) if error.kind == Kind::Interrupted => Err(error),
                Err(error) => return Err(error),
            }
        }
    };
    printer.end()?;
    conclude(context, (text, &statement), &scanned, &tables, started, result)
}

/// Says how it ended, and its exit code or what ended it early.
fn conclude(
    context: &Context<'_>,
    (asked, statement): (&str, &Query),
    scanned: &Scanned,
    tables: &Tables,
    started: Instant,
    result: Result<End, Error>,
) -> Result<Exit, Error> {
    if !context.global.quiet && result != Ok(End::NobodyLooks) {
        let mut text = said::end(&result, scanned, statement.table(), started.elapsed().as_secs_f64());
        if let (Ok(End::Complete | End::NotProven), Some(table), 0) = (&result, statement.table(), scanned.revisions) {
            text.push_str(&said::tables(table, &tables.names()));
        }
        if matches!(result, Ok(End::Complete | End::NotProven)) && scanned.rows == 0 && scanned.revisions > 0 {
            text.push_str(&said::quoted(asked));
        }
        text.push_str(&said::undecodable(scanned));
        context.terminal.say(&text);
    }
    Ok(match result? {
        End::NotProven => Exit::Attention,
        End::Complete | End::LimitReached | End::NobodyLooks if scanned.rows == 0 => Exit::Attention,
        End::Complete | End::LimitReached | End::NobodyLooks => Exit::Done,
    })
}

/// Bytes of rows that are printed at once.
const PORTION: usize = 64 * 1024;

/// Prints rows, in portions and never later than with their page.
struct Printer<'a> {
    terminal: &'a Terminal,
    form: Form,
    out: Vec<u8>,
    progress: Option<Progress>,
    /// Whether anybody reads what is printed.
    is_read: bool,
}

impl Printer<'_> {
    fn begin(&mut self, scan: &Scan) {
        line::say_notes(scan, self.terminal);
        self.progress = Some(Progress::start(&self.terminal.bars, scan.total()));
    }

    fn print(&mut self) -> Result<(), Error> {
        if !self.out.is_empty() && self.is_read {
            self.is_read = self.terminal.show(&self.out)?;
        }
        self.out.clear();
        // A row of many MiB must not be remembered by the room that it took.
        self.out.shrink_to(2 * PORTION);
        Ok(())
    }

    /// Takes the bar away, and prints the heading where there were no rows.
    fn end(&mut self) -> Result<(), Error> {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
        self.form.end(&mut self.out)?;
        self.print()
    }
}

impl Rows for Printer<'_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Error> {
        self.form.row(values, &mut self.out)?;
        if self.out.len() >= PORTION { self.print() } else { Ok(()) }
    }

    fn show(&mut self, read: u64, scanned: &Scanned) -> Result<bool, Error> {
        self.form.show(&mut self.out)?;
        self.print()?;
        if let Some(progress) = &self.progress {
            progress.tell(read, || format!("{} records, {}", HumanCount(scanned.records), said::rows(scanned.rows)));
        }
        Ok(self.is_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_that_the_help_names_is_there() {
        let (_, functions) = LANGUAGE.split_once("\n  functions ").unwrap();
        let (functions, _) = functions.split_once("\n\n").unwrap();
        let others = ["FROM", "FOR", "LEADING", "TRAILING", "IN", "YEAR", "SECOND", "EPOCH", "UTC"];
        let words = functions.split(|c: char| !c.is_ascii_uppercase() && c != '_').filter(|word| word.len() > 1 && !others.contains(word));
        let mut names = 0;
        for name in words {
            let refused = Query::parse(&format!("SELECT {name}(a, b, c, d) FROM t"), 0).err().map(|error| error.what).unwrap_or_default();
            assert!(!refused.contains("expected a function that there is"), "{refused}");
            names += 1;
        }
        assert_eq!(names, 29);
    }

    #[test]
    fn a_statement_is_told_from_a_source() {
        for statement in ["SELECT * FROM t", "  select\n1", "Select(1)", "select*from t"] {
            assert!(is_statement(statement), "{statement}");
        }
        for source in ["select", "selected.ion", "capture/", "-", "kafka://select:9092/t", "", "SELECTION of records.ion"] {
            assert!(!is_statement(source), "{source}");
        }
    }
}
