//! One file on the way through its framing: its records, or why there are no more of them.
//!
//! Opens nothing, and decodes nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::export::Contents;
use super::files::Opened;
use super::recognise::Format;
use super::window::{VALUE_LIMIT, Window};
use super::{Batch, Broken, Framed, ion_binary, ion_text, json, objects, text};
use crate::error::{Error, Kind};
use crate::record::{Message, Origin, Position, Record};

/// What a framing gave.
pub(super) enum Given {
    Record(Record),
    /// The batch of a document that begins there.
    Batch(u64, Box<Batch>),
}

/// One file on the way through its framing.
pub(super) struct Input {
    pub(super) name: String,
    pub(super) origin: Arc<Origin>,
    framing: Framing,
    compressed: bool,
    /// What was seen of it, where it is a data file of an export.
    pub(super) contents: Option<Contents>,
    pub(super) window: Window,
    pub(super) read: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Framing {
    Empty,
    IonBinary(ion_binary::IonBinary),
    IonText(ion_text::IonText),
    ObjectLines,
    Json(json::Json),
    RowLines,
    RowValues(json::Json),
    Whole,
}

impl Framing {
    fn next(&mut self, window: &mut Window) -> Result<Option<Framed>, Broken> {
        match self {
            Self::Empty => Ok(None),
            Self::IonBinary(framing) => framing.next(window),
            Self::IonText(framing) => framing.next(window),
            Self::ObjectLines => Ok(text::next_object_line(window)),
            Self::RowLines => Ok(text::next_object_line(window).map(without_comma)),
            Self::Json(framing) | Self::RowValues(framing) => framing.next(window),
            Self::Whole => whole(window),
        }
    }
}

impl Input {
    /// An input that was opened, by its name for people.
    pub(super) fn new(name: String, origin: Origin, opened: Opened) -> Self {
        let framing = match opened.format {
            // Gzip is taken off before.
            Format::Empty | Format::Gzip => Framing::Empty,
            Format::IonBinary => Framing::IonBinary(ion_binary::IonBinary::default()),
            Format::IonText => Framing::IonText(ion_text::IonText::default()),
            Format::ObjectLines => Framing::ObjectLines,
            Format::Json => Framing::Json(json::Json::default()),
            Format::RowLines => Framing::RowLines,
            Format::RowValues => Framing::RowValues(json::Json::rows()),
            Format::Whole => Framing::Whole,
        };
        let contents = Contents::of(&name);
        Self { name, origin: Arc::new(origin), contents, framing, compressed: opened.compressed, window: opened.window, read: opened.read }
    }

    /// Whether the next record can be had without waiting for more.
    pub(super) fn is_at_hand(&mut self) -> bool {
        if !self.window.is_drained() {
            return true;
        }
        let mut framing = self.framing.clone();
        self.window.suffices(|window| drop(framing.next(window)))
    }

    /// The next record, or what stands for some; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Given>, Error> {
        let mut framed = self.framing.next(&mut self.window);
        if self.window.failed()
            && self.window.bytes().is_empty()
            && framed.as_ref().is_ok_and(|last| last.as_ref().is_some_and(|last| last.damage.is_some()))
        {
            // What is damaged is the input: the rest of it may come with the next reading.
            framed = Ok(None);
        }
        if let Ok(Some(Framed { offset, data, arrived, damage, message, batch })) = framed {
            if let Some(batch) = batch {
                return Ok(Some(Given::Batch(offset, batch)));
            }
            if let Some(contents) = &mut self.contents {
                contents.saw(&data);
            }
            // So tools print the value of a message that has none, which is what follows a delete.
            let is_null = matches!(self.framing, Framing::RowLines | Framing::RowValues(_)) && data == "null";
            return Ok(Some(Given::Record(Record {
                origin: Arc::clone(&self.origin),
                position: Position::Byte { offset },
                data,
                arrived,
                damage,
                message: message.or_else(|| is_null.then(|| Arc::new(Message { is_null, ..Message::default() }))),
            })));
        }
        let after = if self.compressed { " of its decompressed content" } else { "" };
        // An input that fails looks to its framing like one that was cut off; this is the real reason.
        let failure = self.window.take_failure();
        if let Some(refusal) = failure.as_ref().and_then(objects::refusal) {
            return Err(Error::new(Kind::Source, format!("{} cannot be read: {refusal}", self.name)).help(refusal.help.clone()));
        }
        let what = match (failure, framed) {
            (Some(failure), _) => {
                let end = self.window.offset() + self.window.bytes().len() as u64;
                let how = if self.compressed { "is damaged or cut off" } else { "cannot be read" };
                format!("{} {how} after byte {end}{after}: {failure}", self.name)
            }
            (None, Err(broken)) => format!("{} is damaged at byte {}{after}: {}", self.name, broken.offset, broken.what),
            (None, _) => return Ok(None),
        };
        Err(Error::new(Kind::Source, what).help(
            "everything before it was read; capture it again or cut the damage out, and run the same command: nothing is written twice",
        ))
    }
}

/// A line without the comma of the list that it was cut from.
fn without_comma(framed: Framed) -> Framed {
    let data = if framed.data.ends_with(b",") { framed.data.slice(..framed.data.len() - 1) } else { framed.data };
    Framed { data, ..framed }
}

/// A file that is one record.
fn whole(window: &mut Window) -> Result<Option<Framed>, Broken> {
    while window.more() {}
    match window.bytes().len() {
        0 => Ok(None),
        // No record says where it ends.
        _ if window.failed() => Ok(None),
        length if length <= VALUE_LIMIT => Ok(Some(Framed::new(window.offset(), window.take(length)))),
        _ => Err(Broken::at(window.offset(), "expected one record of at most 16 MiB, found more")),
    }
}
