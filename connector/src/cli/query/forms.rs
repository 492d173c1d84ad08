//! The forms in which rows are printed: an aligned table, an object of JSON per line, CSV.
//!
//! Each has a heading even where there are no rows, if the form has one.

use std::io::{IsTerminal, stdout};

use csv::{Terminator, WriterBuilder};

use super::table::Table;
use crate::cli::Terminal;
use crate::cli::terminal::clean;
use crate::codec::ion_json::write_string;
use crate::error::{Error, Kind};
use crate::plan::query::Value;

/// How rows are printed.
pub(super) enum Form {
    /// Columns under their headings.
    Table(Box<Table>),
    /// An object per line, with all columns: what is missing is null.
    Json {
        /// The names as they stand in an object, each with what comes before its value.
        names: Vec<Vec<u8>>,
    },
    /// RFC 4180, with a heading.
    Csv {
        /// Whether the heading was written.
        begun: bool,
        names: Vec<String>,
        /// What a terminal would obey is taken out.
        cleaned: bool,
    },
}

impl Form {
    /// A table, as wide as the terminal where there is one.
    pub(super) fn table(names: &[String], terminal: &Terminal) -> Self {
        Self::Table(Box::new(Table::new(names, terminal.width, terminal.paint)))
    }

    /// Lines of JSON.
    pub(super) fn json(names: &[String]) -> Self {
        let named = |(at, name): (usize, &String)| {
            let mut begin = vec![if at == 0 { b'{' } else { b',' }];
            write_string(name, &mut begin);
            begin.push(b':');
            begin
        };
        Self::Json { names: names.iter().enumerate().map(named).collect() }
    }

    /// CSV.
    pub(super) fn csv(names: &[String]) -> Self {
        Self::Csv { begun: false, names: names.to_vec(), cleaned: stdout().is_terminal() }
    }

    /// Takes a row; what can be printed already is behind `out`.
    ///
    /// # Errors
    /// It cannot be written in this form.
    pub(super) fn row(&mut self, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Table(table) => table.row(values.iter().map(plain), out),
            Self::Json { names } => {
                for (name, value) in names.iter().zip(values) {
                    out.extend_from_slice(name);
                    value.write_json(out);
                }
                out.extend_from_slice(b"}\n");
            }
            Self::Csv { cleaned, .. } => {
                let cleaned = *cleaned;
                self.heading(out)?;
                let field = |value: &Value<'_>| {
                    let (text, _) = plain(value);
                    if cleaned { clean(&text) } else { text }
                };
                line(values.iter().map(field), out)?;
            }
        }
        Ok(())
    }

    /// Nothing may wait any longer.
    ///
    /// # Errors
    /// As [`row`](Self::row).
    pub(super) fn show(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Table(table) => table.show(out),
            Self::Json { .. } => {}
            Self::Csv { .. } => self.heading(out)?,
        }
        Ok(())
    }

    /// No row comes any more.
    ///
    /// # Errors
    /// As [`row`](Self::row).
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Table(table) => table.end(out),
            Self::Json { .. } => {}
            Self::Csv { .. } => self.heading(out)?,
        }
        Ok(())
    }

    fn heading(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Csv { begun, names, .. } if !*begun => {
                *begun = true;
                line(names.iter(), out)
            }
            _ => Ok(()),
        }
    }
}

/// The text of a value, and whether it is a number.
fn plain(value: &Value<'_>) -> (String, bool) {
    let mut bytes = Vec::new();
    value.write_text(&mut bytes);
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    (text, value.is_number())
}

/// Bytes of a line that are written at once. The writer is one of this line alone, so that its buffer is made for each.
const BUFFER: usize = 1024;

/// Appends a line of CSV.
fn line<F: AsRef<[u8]>>(fields: impl Iterator<Item = F>, out: &mut Vec<u8>) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new(Kind::Usage, format!("a row cannot be written as CSV: {error}"));
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).buffer_capacity(BUFFER).from_writer(out);
    writer.write_record(fields).map_err(|error| failed(&error))?;
    writer.flush().map_err(|error| failed(&error))
}
