//! Memory for what is large: each its own, and back with the operating system as soon as nobody has it any more.
//!
//! An allocator keeps what is freed for later, and large pieces of ever different sizes leave gaps that nothing fits into: with documents of
//! some MiB, twice as much was resident as was in use. A leaf: imports nothing.

use std::io::{self, Write};

use bytes::Bytes;
use memmap2::MmapMut;

/// Bytes from which on something is large. Documents rarely are.
const LARGE: usize = 1 << 20;

/// A buffer that is filled from its beginning. What is not filled yet takes no memory, where it is large.
#[derive(Debug)]
pub struct Buffer {
    room: Room,
    length: usize,
}

#[derive(Debug)]
enum Room {
    Small(Vec<u8>),
    Large(MmapMut),
}

impl Buffer {
    /// An empty buffer with room for so many bytes.
    pub fn with_room(bytes: usize) -> Self {
        let large = (bytes >= LARGE).then(|| MmapMut::map_anon(bytes).ok()).flatten();
        Self { room: large.map_or_else(|| Room::Small(vec![0; bytes]), Room::Large), length: 0 }
    }

    /// Bytes that were filled.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was filled.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn filled(&self) -> &[u8] {
        let room: &[u8] = match &self.room {
            Room::Small(room) => room,
            Room::Large(room) => room,
        };
        &room[..self.length]
    }

    /// The room that is left.
    pub fn unfilled(&mut self) -> &mut [u8] {
        let room: &mut [u8] = match &mut self.room {
            Room::Small(room) => room,
            Room::Large(room) => room,
        };
        &mut room[self.length..]
    }

    /// So many bytes more of the room are filled.
    pub fn fill(&mut self, bytes: usize) {
        let bytes = bytes.min(self.unfilled().len());
        self.length += bytes;
    }

    /// What was filled.
    pub fn into_bytes(self) -> Bytes {
        match self.room {
            Room::Small(mut room) => {
                room.truncate(self.length);
                if self.length < room.capacity() / 2 {
                    room.shrink_to_fit();
                }
                room.into()
            }
            Room::Large(room) => Bytes::from_owner(room).slice(..self.length),
        }
    }
}

/// Writes into the room that is left, and makes more where there is too little.
impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.unfilled().len() {
            let mut larger = Self::with_room((2 * self.length).max(self.length + bytes.len()));
            larger.unfilled()[..self.length].copy_from_slice(self.filled());
            larger.length = self.length;
            *self = larger;
        }
        self.unfilled()[..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same bytes in memory of their own.
pub fn copy(bytes: &[u8]) -> Bytes {
    if bytes.len() < LARGE {
        return Bytes::copy_from_slice(bytes);
    }
    let mut copy = Buffer::with_room(bytes.len());
    copy.unfilled().copy_from_slice(bytes);
    copy.fill(bytes.len());
    copy.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_gives_back_what_was_written_whatever_its_size() {
        for room in [0, 1, 1_000, LARGE - 1, LARGE, 3 * LARGE] {
            let written: Vec<u8> = (0..room / 3).map(|at| at as u8).collect();
            let mut buffer = Buffer::with_room(room);
            assert!(buffer.is_empty() && buffer.unfilled().len() == room);
            written.chunks(700).for_each(|chunk| buffer.write_all(chunk).unwrap());
            assert_eq!((buffer.len(), buffer.unfilled().len()), (written.len(), room - written.len()));
            assert_eq!(buffer.into_bytes(), written);
            assert_eq!(copy(&written), written);
        }
        assert_eq!(copy(&[7; 2 * LARGE]), [7; 2 * LARGE][..]);
    }

    #[test]
    fn a_full_buffer_makes_more_room_for_what_is_written_and_for_nothing_else() {
        let mut buffer = Buffer::with_room(3);
        buffer.fill(10);
        assert_eq!((buffer.len(), buffer.unfilled().len()), (3, 0));
        let mut expected = vec![0; 3];
        for size in [1, 0, 5_000, LARGE, 10] {
            buffer.write_all(&vec![size as u8; size]).unwrap();
            expected.resize(expected.len() + size, size as u8);
        }
        assert_eq!(buffer.into_bytes(), expected);
    }
}
