//! A window over an input that may be of any size: what is buffered, where it begins, and how far the input has been read.
//!
//! Hands out slices of its pages without copying. Never buffers more than one value's limit and a page, and never looks at what the bytes
//! mean.

use std::io::{self, Read};

use bytes::Bytes;

use crate::memory::{self, Buffer};

/// The most bytes that one top-level value may have: 16 MiB.
pub(super) const VALUE_LIMIT: usize = 16 << 20;

/// How much is read at once. Small, because one record that stays unsettled keeps its whole page in memory.
const PAGE: usize = 256 << 10;

/// Bytes from which on something has memory of its own, instead of keeping a page that is for the most part not its own.
const ALONE: usize = PAGE / 16;

/// A page of more bytes was made for a large value.
const LARGE: usize = 1 << 20;

/// What a pipe holds: of one that is read as it comes, not much more is read at once.
const PIPE: usize = 64 << 10;

/// A cursor over an input, with everything from the cursor on that has been read so far.
pub(super) struct Window {
    input: Box<dyn Read + Send>,
    page: Bytes,
    at: usize,
    offset: u64,
    ended: bool,
    failure: Option<io::Error>,
    live: Option<Live>,
    /// Nothing is read, and whether something would have been.
    paused: Option<bool>,
}

/// An input that is handed on as it comes.
#[derive(Debug, Clone, Copy)]
struct Live {
    /// The most that one read gives, even if there is more.
    step: usize,
    /// Whether the last read gave all that there was.
    drained: bool,
}

/// Bytes that were given up: the first [`VALUE_LIMIT`] of them, and how many there were in all.
pub(super) struct Salvage {
    pub(super) data: Bytes,
    pub(super) length: u64,
}

impl Window {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input, page: Bytes::new(), at: 0, offset: 0, ended: false, failure: None, live: None, paused: None }
    }

    /// A window over an input that may be slow: what has come is not kept back until a page is full. One read gives at most `step` bytes.
    pub(super) fn live(input: Box<dyn Read + Send>, step: usize) -> Self {
        Self { live: Some(Live { step, drained: false }), ..Self::new(input) }
    }

    /// Whether what was buffered last is all that has come so far.
    pub(super) fn is_drained(&self) -> bool {
        !self.ended && self.live.is_some_and(|live| live.drained)
    }

    /// Whether this looks at no more than what is buffered. Leaves the cursor where it was.
    pub(super) fn suffices(&mut self, look: impl FnOnce(&mut Self)) -> bool {
        let (at, offset) = (self.at, self.offset);
        self.paused = Some(false);
        look(self);
        (self.at, self.offset) = (at, offset);
        self.paused.take() == Some(false)
    }

    /// The buffered bytes from the cursor on.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.page[self.at..]
    }

    /// Where the cursor stands in the input.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether nothing comes behind what is buffered, as far as is known.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// The input from the cursor on.
    pub(super) fn into_input(self) -> Box<dyn Read + Send> {
        let buffered = io::Cursor::new(self.page.slice(self.at..));
        Box::new(buffered.chain(self.input))
    }

    /// Whether the input ended before its end.
    pub(super) fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why the input ended before its end, where it did.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Buffers at least `count` bytes; false when the input ends before them.
    pub(super) fn need(&mut self, count: usize) -> bool {
        if self.bytes().len() < count && !self.ended {
            self.fill(count, count);
        }
        self.bytes().len() >= count
    }

    /// Buffers more than before; false at the end of the input, and when a value's limit is buffered already.
    pub(super) fn more(&mut self) -> bool {
        let have = self.bytes().len();
        if have > VALUE_LIMIT {
            return false;
        }
        // Steps of a part of what is there keep a scan that starts again after each of them linear in all.
        if !self.ended {
            self.fill(have + 1, (have + have / 2 + PAGE).min(VALUE_LIMIT + PAGE));
        }
        self.bytes().len() > have
    }

    /// Whether the input ends with what is buffered.
    pub(super) fn at_end(&mut self, count: usize) -> bool {
        !self.need(count + 1)
    }

    /// A part of the buffered bytes, counted from the cursor, which stays.
    pub(super) fn slice(&self, from: usize, to: usize) -> Bytes {
        self.page.slice(self.at + from..self.at + to)
    }

    /// The next `count` buffered bytes; the cursor moves behind them. Large ones do not keep more in memory than themselves.
    pub(super) fn take(&mut self, count: usize) -> Bytes {
        // A page that was made for one value holds little else.
        let is_most = count >= self.page.len() - self.page.len() / 8;
        let taken = if count < ALONE || is_most { self.slice(0, count) } else { memory::copy(&self.bytes()[..count]) };
        self.at += count;
        self.offset += count as u64;
        self.let_go();
        taken
    }

    /// Keeps no large page for a small rest.
    fn let_go(&mut self) {
        if self.page.len() >= LARGE && self.bytes().len() < self.page.len() / 2 && self.paused.is_none() {
            self.page = memory::copy(self.bytes());
            self.at = 0;
        }
    }

    /// Moves the cursor, also past what is buffered; stops at the end of the input.
    pub(super) fn skip(&mut self, mut count: u64) {
        loop {
            let step = count.min(self.bytes().len() as u64);
            // Lossless: no more than what is buffered.
            self.at += step as usize;
            self.offset += step;
            count -= step;
            if count == 0 || !self.need(1) {
                self.let_go();
                return;
            }
        }
    }

    /// Gives up everything from the cursor to the first place at or behind `from` where `find` sees something to go on with.
    /// `find` gets bytes and answers a place in them, looking at no more than `width` bytes from there. `None`: there is no such place.
    pub(super) fn salvage(&mut self, from: usize, width: usize, find: impl Fn(&[u8]) -> Option<usize>) -> Option<Salvage> {
        let mut searched = from;
        loop {
            if let Some(found) = self.bytes().get(searched..).and_then(&find) {
                let length = searched + found;
                let data = self.take(length);
                return Some(Salvage { data: data.slice(..length.min(VALUE_LIMIT)), length: length as u64 });
            }
            searched = searched.max(self.bytes().len().saturating_sub(width - 1));
            if !self.more() {
                break;
            }
        }
        if self.at_end(self.bytes().len()) {
            return None;
        }
        let (data, mut length) = (self.slice(0, VALUE_LIMIT), searched as u64);
        self.skip(length);
        while self.need(width) {
            let step = match find(self.bytes()) {
                Some(found) => {
                    self.skip(found as u64);
                    return Some(Salvage { data, length: length + found as u64 });
                }
                None => self.bytes().len() - (width - 1),
            };
            self.skip(step as u64);
            length += step as u64;
        }
        None
    }

    /// Reads until `count` bytes are buffered, and on up to `room` or what a page has room for, but a live input no further than what has come.
    fn fill(&mut self, count: usize, room: usize) {
        if let Some(would_read) = &mut self.paused {
            *would_read = true;
            return;
        }
        let rest = self.bytes();
        let page = if self.live.is_some() { PIPE } else { PAGE };
        let mut page = Buffer::with_room(room.max(rest.len() + page / 2).max(page));
        page.unfilled()[..rest.len()].copy_from_slice(rest);
        page.fill(rest.len());
        if let Err(error) = self.read_into(&mut page, count) {
            self.ended = true;
            self.failure = Some(error);
        }
        self.page = page.into_bytes();
        self.at = 0;
    }

    fn read_into(&mut self, page: &mut Buffer, count: usize) -> io::Result<()> {
        while !page.unfilled().is_empty() {
            let asked = page.unfilled().len();
            match self.input.read(page.unfilled()) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => {
                    page.fill(read);
                    if let Some(live) = &mut self.live {
                        live.drained = read < asked.min(live.step);
                        if live.drained && page.len() >= count {
                            break;
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(bytes: Vec<u8>) -> Window {
        Window::new(Box::new(io::Cursor::new(bytes)))
    }

    #[test]
    fn what_is_taken_is_what_was_written_across_pages() {
        let bytes: Vec<u8> = (0..PAGE * 3).map(|i| (i % 251) as u8).collect();
        let mut window = window(bytes.clone());
        let mut read = Vec::new();
        while window.need(1000) {
            read.extend_from_slice(&window.take(1000));
        }
        let rest = window.bytes().len();
        read.extend_from_slice(&window.take(rest));
        assert_eq!(read, bytes);
        assert_eq!(window.offset(), bytes.len() as u64);
    }

    #[test]
    fn slices_share_their_page() {
        let mut window = window(vec![7; 100]);
        assert!(window.need(100));
        let (first, second) = (window.take(10), window.take(10));
        assert_eq!(first.as_ptr() as usize + 10, second.as_ptr() as usize);
    }

    #[test]
    fn giving_up_keeps_a_value_s_limit_and_counts_the_rest() {
        let mut bytes = vec![b'x'; VALUE_LIMIT * 2 + 77];
        bytes.extend_from_slice(b"HERE");
        let mut window = window(bytes);
        let salvage = window.salvage(0, 4, |b| memchr::memmem::find(b, b"HERE")).unwrap();
        assert_eq!(salvage.data.len(), VALUE_LIMIT);
        assert_eq!(salvage.length, VALUE_LIMIT as u64 * 2 + 77);
        assert!(window.bytes().starts_with(b"HERE"));
        assert!(window.page.len() <= VALUE_LIMIT, "the window grew with the garbage");
    }

    #[test]
    fn giving_up_without_a_place_to_go_on_finds_none() {
        for length in [0, 3, PAGE, VALUE_LIMIT + PAGE * 3] {
            let mut window = window(vec![b'x'; length]);
            assert!(window.salvage(0, 4, |b| memchr::memmem::find(b, b"HERE")).is_none());
        }
    }

    #[test]
    fn skipping_past_the_end_stops_there() {
        let mut window = window(vec![0; 10]);
        window.skip(1 << 40);
        assert_eq!(window.offset(), 10);
    }

    #[test]
    fn an_input_that_fails_keeps_what_it_gave_before() {
        struct Fails(usize);
        impl Read for Fails {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0 == 0 {
                    return Err(io::Error::other("gone"));
                }
                self.0 -= 1;
                buffer[0] = b'a';
                Ok(1)
            }
        }
        let mut window = Window::new(Box::new(Fails(3)));
        assert!(!window.need(4));
        assert_eq!(window.bytes(), b"aaa");
        assert!(window.take_failure().is_some());
    }
}
