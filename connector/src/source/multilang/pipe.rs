//! The two pipes to the daemon: lines come in, answers go out.
//!
//! A line is read as a whole, and the next one not before it is taken. Never waits for the daemon anywhere but in a thread of its own.

use std::future::Future;
use std::io::{self, BufRead, Read, Write};
use std::thread;

use tokio::sync::{mpsc, watch};

use super::message::Answer;
use crate::error::{Error, Kind};

/// The longest line that is read. What one read of a shard brings is 10 MiB, 14 MiB in Base64; an aggregate of tiny records, taken apart, is
/// several times as much.
const LONGEST: usize = 256 << 20;

/// The pipes to the daemon.
pub struct Daemon {
    lines: mpsc::Receiver<Option<io::Result<Vec<u8>>>>,
    gone: watch::Receiver<bool>,
    answers: Box<dyn Write + Send>,
}

impl Daemon {
    /// Begins to read. `input` is read by a thread of its own, which ends with the process or with the input.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn over(input: impl BufRead + Send + 'static, answers: impl Write + Send + 'static) -> Result<Self, Error> {
        let (sender, lines) = mpsc::channel(1);
        let (has_gone, gone) = watch::channel(false);
        let reading = move || {
            read_all(input, &sender);
            // Behind the last line: whoever works on it is told that nobody waits for the answer any more, and not before.
            let _ = sender.blocking_send(None);
            let _ = has_gone.send(true);
        };
        let named = thread::Builder::new().name("multilang".to_owned());
        named.spawn(reading).map_err(|error| Error::new(Kind::Source, format!("standard input cannot be read: {error}")))?;
        Ok(Self { lines, gone, answers: Box::new(answers) })
    }

    /// The next line; `None` when the input has ended. May be dropped at any time.
    ///
    /// # Errors
    /// The input cannot be read, or a line is longer than any page of records.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.lines.recv().await.flatten().transpose() {
            Ok(line) => Ok(line),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let what = format!("standard input: expected lines of at most {} MiB, found a longer one", LONGEST >> 20);
                Err(Error::new(Kind::Source, what).help("set maxRecords lower in the properties file of the MultiLangDaemon"))
            }
            Err(error) => Err(Error::new(Kind::Source, format!("standard input: {error}"))),
        }
    }

    /// Waits for the end of the input, also while its last line is worked on: the daemon has closed it, or is no more.
    pub fn gone(&self) -> impl Future<Output = ()> + 'static {
        let mut gone = self.gone.clone();
        async move {
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }

    /// Says something to the daemon, at once.
    ///
    /// # Errors
    /// The daemon does not listen any more.
    pub fn say(&mut self, answer: &Answer<'_>) -> io::Result<()> {
        self.answers.write_all(&answer.bytes()?)?;
        self.answers.flush()
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

fn read_all(mut input: impl BufRead, sender: &mpsc::Sender<Option<io::Result<Vec<u8>>>>) {
    loop {
        let line = match read_line(&mut input, LONGEST) {
            Ok(None) => return,
            // As the daemon does it.
            Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
            Ok(Some(line)) => Ok(line),
            Err(error) => Err(error),
        };
        let is_the_end = line.is_err();
        if sender.blocking_send(Some(line)).is_err() || is_the_end {
            return;
        }
    }
}

/// The next line without its end; `None` at the end of the input.
pub(super) fn read_line(input: &mut impl BufRead, longest: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input.take(longest as u64 + 1).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read > longest {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((read > 0).then_some(line))
}
