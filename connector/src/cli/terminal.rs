//! What a person or a program sees: results on standard output, everything else on standard error.
//!
//! A closed pipe ends quietly. Nothing that came from a document reaches a terminal with its control characters.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use console::{Style, StyledObject, Term};
use indicatif::{MultiProgress, ProgressDrawTarget};

use super::options::Global;
use crate::config::Environment;
use crate::error::{Error, Kind};

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint(pub bool);

impl Paint {
    fn style<T>(self, style: Style, text: T) -> StyledObject<T> {
        style.force_styling(self.0).apply_to(text)
    }

    /// For what matters most.
    pub fn bold<T: Display>(self, text: T) -> StyledObject<T> {
        self.style(Style::new().bold(), text)
    }

    /// For what matters least.
    pub fn dim<T: Display>(self, text: T) -> StyledObject<T> {
        self.style(Style::new().dim(), text)
    }

    /// For what is right.
    pub fn good<T: Display>(self, text: T) -> StyledObject<T> {
        self.style(Style::new().green(), text)
    }

    /// For what needs attention.
    pub fn warn<T: Display>(self, text: T) -> StyledObject<T> {
        self.style(Style::new().yellow().bold(), text)
    }

    /// For what failed.
    pub fn bad<T: Display>(self, text: T) -> StyledObject<T> {
        self.style(Style::new().red().bold(), text)
    }
}

/// Standard output and standard error, and what they can show.
#[derive(Debug)]
pub struct Terminal {
    /// Results are JSON.
    pub json: bool,
    /// Colours on standard output.
    pub paint: Paint,
    /// Columns of standard output, where it is a terminal.
    pub width: Option<usize>,
    /// Colours on standard error.
    pub paint_err: Paint,
    /// Progress bars on standard error; hidden where it is no terminal.
    pub bars: MultiProgress,
}

impl Terminal {
    /// The terminal of this process.
    pub fn of_process(global: &Global, environment: Environment<'_>) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        // https://no-color.org: any value but an empty one switches colour off.
        let colour = environment("NO_COLOR").is_none_or(|value| value.is_empty()) && environment("TERM").as_deref() != Some("dumb");
        let target = if err && !global.quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            json: global.json,
            paint: Paint(out && colour),
            width: if out { Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)) } else { None },
            paint_err: Paint(err && colour),
            bars: MultiProgress::with_draw_target(target),
        }
    }

    /// Prints a result.
    ///
    /// # Errors
    /// Standard output cannot be written. A reader that went away is no error.
    pub fn print(&self, text: &str) -> Result<(), Error> {
        self.show(text.as_bytes()).map(drop)
    }

    /// Prints a part of a result; whether anybody is left to read the next one.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub fn show(&self, bytes: &[u8]) -> Result<bool, Error> {
        let written = self.bars.suspend(|| {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        });
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Error::new(Kind::Usage, format!("standard output: {error}"))),
            Ok(()) => Ok(true),
        }
    }

    /// Prints a result as one JSON document on one line.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub fn print_json(&self, value: &impl serde::Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value)
            .map_err(|error| Error::new(Kind::Usage, format!("the result cannot be written as JSON: {error}")))?;
        self.print(&format!("{text}\n"))
    }

    /// Says something that is no result. Nobody is left to tell when standard error is closed.
    pub fn say(&self, text: &str) {
        self.bars.suspend(|| {
            let _ = io::stderr().lock().write_all(text.as_bytes());
        });
    }

    /// Where diagnostics go: standard error, above the progress bars.
    pub fn log_writer(&self) -> impl Fn() -> LogWriter + Send + Sync + 'static {
        let (bars, is_painted) = (self.bars.clone(), self.paint_err.0);
        move || LogWriter { bars: bars.clone(), is_painted }
    }

    /// Says why a command failed.
    pub fn fail(&self, error: &Error) {
        // A mark under a place in a text stands on a line of its own.
        let what: Vec<String> = error.what.lines().map(clean).collect();
        let mut text = format!("{} {}\n", self.paint_err.bad("error:"), what.join("\n  "));
        if let Some(help) = &error.help {
            text.push_str(&format!(" {} {}\n", self.paint_err.good("help:"), clean(help)));
        }
        self.say(&text);
    }
}

/// Writes whole lines to standard error while the progress bars step aside. Never fails: of an error tracing would tell on standard error, and
/// panic where that is closed.
#[derive(Debug)]
pub struct LogWriter {
    bars: MultiProgress,
    is_painted: bool,
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = one_line(bytes, self.is_painted);
        self.bars.suspend(|| {
            let _ = io::stderr().lock().write_all(&line);
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of the log as one line: a name of a stream or table may have what would begin another one. Colours, where there are any, stay.
fn one_line(bytes: &[u8], is_painted: bool) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let mut line = Vec::with_capacity(bytes.len());
    for byte in bytes.strip_suffix(b"\n").unwrap_or(bytes) {
        if byte.is_ascii_control() && !(is_painted && *byte == ESCAPE) {
            line.extend(byte.escape_ascii());
        } else {
            line.push(*byte);
        }
    }
    line.push(b'\n');
    line
}

/// Text from outside without what a terminal would obey: control characters become U+FFFD, line breaks and tabs a space.
pub(crate) fn clean(text: &str) -> String {
    let clean = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        // The bidirectional controls reorder what is read, which hides as well as an escape sequence does.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_drive_a_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\n\tc\u{7}\u{9b}\u{202e}"), "a\u{fffd}[31mb   c\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(clean("Grüße, 東京"), "Grüße, 東京");
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_a_name() {
        assert_eq!(one_line(b"a\nERROR forged\r\x1b[31m\tz\n", false), b"a\\nERROR forged\\r\\x1b[31m\\tz\n");
        assert_eq!(one_line("\u{1b}[31mGrüße\u{1b}[0m\n\n".as_bytes(), true), "\u{1b}[31mGrüße\u{1b}[0m\\n\n".as_bytes());
    }

    #[test]
    fn without_colour_nothing_is_added() {
        let plain = Paint(false);
        assert_eq!(format!("{}{}{}", plain.bold("a"), plain.bad("b"), plain.dim(3)), "ab3");
        assert_eq!(Paint(true).bold("a").to_string(), "\u{1b}[1ma\u{1b}[0m");
    }
}
