//! The progress bar of long work, on standard error when that is a terminal.
//!
//! Shows counts that others keep; never counts by itself, and is never a result.

use std::time::Duration;

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressStyle};

use crate::metrics::Counts;
use crate::source::scan::Length;

/// One bar. Hidden, and free of cost, where standard error is no terminal.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar up to the end of what is read, or a spinner where the end is not known.
    pub fn start(bars: &MultiProgress, length: Length) -> Self {
        let (bar, template) = match length {
            Length::Bytes(Some(bytes)) => (ProgressBar::new(bytes), "{bar:30} {percent:>3}%  {msg}  {binary_bytes_per_sec}, {eta} left"),
            Length::Bytes(None) => (ProgressBar::no_length(), "{spinner} {binary_bytes}  {msg}  {binary_bytes_per_sec}"),
            // Lossless for the next 500 million years.
            Length::Time(time) => {
                (ProgressBar::new(time.as_millis() as u64), "{bar:30} {percent:>3}% of the stream's time  {msg}, {eta} left")
            }
            Length::Messages(messages) => (ProgressBar::new(messages), "{bar:30} {percent:>3}%  {msg}  {per_sec}, {eta} left"),
        };
        let bar = bars.add(bar);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if length == Length::Bytes(None) && !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self(bar)
    }

    /// A bar up to a number of tombstones, which shows with the first call of [`reach`](Self::reach).
    pub fn of_tombstones(bars: &MultiProgress) -> Self {
        let bar = bars.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3}%  {human_pos} tombstones, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// A bar up to a number of documents, which shows with the first call of [`reach`](Self::reach).
    pub fn of_documents(bars: &MultiProgress) -> Self {
        let bar = bars.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3}%  {human_pos} documents, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// A count of units that were read after the end that was known.
    pub fn of_units(bars: &MultiProgress) -> Self {
        let bar = bars.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows how much of the source was read, and how many units that were.
    pub fn read(&self, read: u64, units: u64) {
        self.update(read, &Counts { received: units, ..Counts::default() });
    }

    /// Shows how many were looked at, and of how many.
    pub fn reach(&self, looked_at: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(looked_at);
    }

    /// Shows where the run is: how much of the source was read, and the counts.
    pub fn update(&self, read: u64, counts: &Counts) {
        self.tell(read, || summary(counts));
    }

    /// Shows how much of the source was read, and what came of it.
    pub fn tell(&self, read: u64, message: impl FnOnce() -> String) {
        self.0.set_position(read);
        if !self.0.is_hidden() {
            self.0.set_message(message());
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}

fn summary(counts: &Counts) -> String {
    let mut text = format!("{} units", HumanCount(counts.received));
    for (count, name) in [(counts.stale, "stale"), (counts.dead_letters, "dead letters")] {
        if count > 0 {
            text.push_str(&format!(", {} {name}", HumanCount(count)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_names_only_what_happened() {
        let mut counts = Counts { received: 12_345, indexed: 12_345, ..Counts::default() };
        assert_eq!(summary(&counts), "12,345 units");
        (counts.stale, counts.dead_letters) = (1_000, 2);
        assert_eq!(summary(&counts), "12,345 units, 1,000 stale, 2 dead letters");
    }
}
