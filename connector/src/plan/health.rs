//! What a pipeline's state means to those who answer for it: whether it is stuck, whether it is ready, and the one sentence that says how it is.
//!
//! Decides from plain data. Never asks for a restart where that mends nothing: an end that cannot be reached, an index that is blocked, another
//! process that does the work.

use std::time::Duration;

/// A shard that is no further behind than this is caught up: what is on its way at any time is no more than that.
pub const CAUGHT_UP: Duration = Duration::from_secs(10);

/// A shard that is read answers more often than that, also where there are thousands and also where it has nothing to say.
pub const SILENT: Duration = Duration::from_secs(2 * 60);

/// What a pipeline does at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It looks for its two ends.
    Starting,
    /// Another one does the work, and this one takes over when that stops.
    Waiting {
        /// Who does the work.
        owner: String,
    },
    /// It reads and delivers.
    Running,
    /// It was told to stop.
    Stopping,
}

impl Phase {
    /// The phase's name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Waiting { .. } => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
        }
    }
}

/// What a pipeline has come to, as far as its health goes by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// What it does.
    pub phase: Phase,
    /// What it needs to reach.
    pub places: Vec<Place>,
    /// The indices that cannot be written.
    pub blocked: Vec<Blocked>,
    /// Whether nothing is read because too much waits for a blocked index.
    pub paused: bool,
    /// How its shards are.
    pub shards: Shards,
    /// For how long there was something to do, nothing was known to hinder it, and nothing was settled.
    pub stalled: Duration,
    /// How often something was lost before it could be read.
    pub data_loss: u64,
}

/// What a place is to the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Where records come from.
    Source,
    /// Where operations go.
    Sink,
    /// Where checkpoints are.
    Checkpoints,
    /// Where dead letters go.
    DeadLetters,
}

impl Role {
    /// What it is called in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sink => "sink",
            Self::Checkpoints => "place for checkpoints",
            Self::DeadLetters => "place for dead letters",
        }
    }
}

/// A place that the pipeline needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What it is for.
    pub role: Role,
    /// Its address, without credentials; empty where it has none.
    pub address: String,
    /// Whether it can be reached.
    pub reach: Reach,
}

/// Whether a place can be reached, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Nobody tried yet.
    Untried,
    /// It answered last time.
    Reached,
    /// It did not.
    Unreachable {
        /// For how long.
        since: Duration,
        /// Why.
        why: String,
    },
}

/// An index that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Its name.
    pub index: String,
    /// For how long.
    pub since: Duration,
    /// Why.
    pub why: String,
}

/// How many shards are how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shards {
    /// Those that are read here.
    pub read: usize,
    /// Of those, the ones that are more than [`CAUGHT_UP`] behind.
    pub behind: usize,
    /// Of those, the ones that have not answered yet.
    pub unknown: usize,
    /// Of those, the ones with something that hinders their reading.
    pub troubled: usize,
    /// How far the one is behind that is behind the furthest.
    pub furthest: Duration,
    /// For how long the one did not answer that did not for longest.
    pub silent: Duration,
    /// Those whose parents come first.
    pub waiting: usize,
    /// Those that another process reads.
    pub held: usize,
    /// Records that were read and are not settled.
    pub unsettled: usize,
    /// Records that the shards that are read here have and that were not taken in, where that is known.
    pub unread: u64,
}

impl Summary {
    /// Whether there is anything that should be done and is not: settled, or read. A shard that answers is read, however far behind it says
    /// that it is: it may have long stretches without a record, and the distance of an idle one may never be nothing.
    pub fn has_work(&self) -> bool {
        self.shards.unsettled > 0 || self.shards.silent >= SILENT
    }

    /// Whether something is known that keeps the pipeline from settling anything, and that no restart mends.
    pub fn is_hindered(&self) -> bool {
        let unreachable = |place: &Place| matches!(place.reach, Reach::Unreachable { .. });
        self.phase != Phase::Running
            || self.paused
            || !self.blocked.is_empty()
            || self.shards.troubled > 0
            || self.places.iter().any(unreachable)
    }

    /// Why the process has to be started anew, where it has to: there is something to do, nothing hinders it, and nothing was settled for
    /// `after`.
    pub fn stuck(&self, after: Duration) -> Option<String> {
        (self.has_work() && !self.is_hindered() && self.stalled >= after).then(|| {
            let what = match self.shards.unsettled {
                0 => format!("a shard has not answered for {}", in_words(self.shards.silent)),
                1 => "1 record waits".to_owned(),
                records => format!("{records} records wait"),
            };
            format!("nothing was settled for {}, although everything can be reached and {what}", in_words(self.stalled))
        })
    }

    /// Why the pipeline is not ready, in plain words; nothing where it is. A place that nobody tried yet counts as one that can be reached.
    pub fn not_ready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match &self.phase {
            Phase::Running => {}
            Phase::Starting => reasons.push("it is starting".to_owned()),
            Phase::Waiting { owner } => reasons.push(format!("{owner} does the work; this process takes over when that one stops")),
            Phase::Stopping => reasons.push("it was told to stop".to_owned()),
        }
        for place in &self.places {
            let (role, address) = (place.role.as_str(), &place.address);
            let name = if address.is_empty() { role.to_owned() } else { format!("{role} {address}") };
            if let Reach::Unreachable { since, why } = &place.reach {
                reasons.push(format!("the {name} has been unreachable for {}: {why}", in_words(*since)));
            }
        }
        for Blocked { index, since, why } in &self.blocked {
            reasons.push(format!("the index {index} has been blocked for {}: {why}", in_words(*since)));
        }
        if self.paused {
            reasons.push("nothing more is read, because too much waits for a blocked index".to_owned());
        }
        reasons
    }

    /// How it is, in one or two sentences; `stuck_after` as in [`stuck`](Self::stuck).
    pub fn headline(&self, stuck_after: Duration) -> Headline {
        let reasons = self.not_ready();
        let (mut tone, mut text) = match (self.stuck(stuck_after), &self.phase, reasons.as_slice()) {
            (Some(why), ..) => (Tone::Bad, format!("Stuck: {why}. It should be started anew.")),
            (None, Phase::Waiting { .. }, [why]) => (Tone::Idle, format!("Waiting: {why}.")),
            (None, Phase::Starting, [_]) => (Tone::Idle, "Starting.".to_owned()),
            (None, Phase::Stopping, [_]) => (Tone::Idle, "Stopping: what is under way is finished, nothing more is read.".to_owned()),
            (None, _, []) if self.shards.behind > 0 || self.shards.unknown > 0 || self.shards.troubled > 0 => {
                (Tone::Busy, "Running.".to_owned())
            }
            (None, _, []) => (Tone::Good, "Running.".to_owned()),
            // A phase that is no trouble is told last.
            (None, phase, [first, others @ ..]) => {
                let worst = if *phase == Phase::Running { first } else { others.first().unwrap_or(first) };
                let more = if self.phase == Phase::Running { others.len() } else { others.len().saturating_sub(1) };
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                let (worst, cut) = shortened(worst);
                let end = if more.is_empty() && !cut.is_empty() { "" } else { "." };
                (Tone::Bad, format!("Not ready: {worst}{cut}{more}{end}"))
            }
        };
        if matches!(self.phase, Phase::Running) {
            text.push(' ');
            text.push_str(&capital(&self.lag()));
            text.push('.');
        }
        if self.data_loss > 0 {
            tone = if tone == Tone::Good { Tone::Busy } else { tone };
            text.push_str(&format!(" Records were lost before they could be read, {}.", times(self.data_loss)));
        }
        Headline { tone, text }
    }

    /// How far behind the shards are.
    fn lag(&self) -> String {
        let Shards { read, behind, unknown, furthest, held, waiting, troubled, unread, .. } = self.shards;
        let by = in_words(furthest);
        let mut said = match (read, behind, unknown) {
            (0, ..) if held > 0 => format!("all {} are read by others", shards(held)),
            (0, ..) => "there is no shard to read".to_owned(),
            (1, 0, 0) => "the only shard is caught up".to_owned(),
            (_, 0, 0) => format!("all {} are caught up", shards(read)),
            (1, 1, _) => format!("the only shard is {by} behind"),
            (_, 0, _) => format!("{unknown} of {} {} not answered yet", shards(read), if unknown == 1 { "has" } else { "have" }),
            (_, 1, _) => format!("1 of {} is behind, by {by}", shards(read)),
            (..) => format!("{behind} of {} are behind, the furthest by {by}", shards(read)),
        };
        if unread > 0 {
            said.push_str(&format!(", with {unread} records to be read"));
        }
        if troubled > 0 {
            said.push_str(&format!("; {troubled} cannot be read at the moment"));
        }
        if waiting > 0 {
            said.push_str(&format!(
                "; {waiting} more {} for {} parents",
                if waiting == 1 { "waits" } else { "wait" },
                if waiting == 1 { "its" } else { "their" }
            ));
        }
        said
    }
}

/// How a pipeline is, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// How good that is.
    pub tone: Tone,
    /// One or two sentences.
    pub text: String,
}

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// It works, and has not come to the end of its work, or a person should know of something.
    Busy,
    /// It does nothing, as it should.
    Idle,
    /// A person should look.
    Bad,
}

impl Tone {
    /// The tone's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Bad => "bad",
        }
    }
}

/// What has room in a headline, and a sign that there is more: a server's reason may be a paragraph.
fn shortened(reason: &str) -> (&str, &'static str) {
    const MOST: usize = 140;
    match reason.char_indices().nth(MOST) {
        None => (reason.trim_end_matches(['.', ';']), ""),
        Some((end, _)) => (reason[..end].rsplit_once(' ').map_or(&reason[..end], |(whole, _)| whole), " …"),
    }
}

fn shards(number: usize) -> String {
    if number == 1 { "1 shard".to_owned() } else { format!("{number} shards") }
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// A length of time as people say it, with its two largest units at most.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: u64, unit: &str, small: u64, below: &str| {
        if small == 0 { format!("{large} {unit}") } else { format!("{large} {unit} {small} {below}") }
    };
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..600 => two(minutes, "min", seconds % 60, "s"),
        600..3_600 => format!("{minutes} min"),
        3_600..86_400 => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests;
