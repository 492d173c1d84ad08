//! The memory that all that is read and not taken in yet may have together, and how many are read at once.
//!
//! Room is taken before anything is read, by what is expected. What turns out larger is not thrown away: it is owed, and nothing more is let in
//! until it is paid. Never looks at what the room is for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Reads at once: so many may turn out larger than expected together.
const AT_ONCE: usize = 8;

/// The room of all.
#[derive(Debug)]
pub(super) struct Room {
    /// In KiB.
    free: Semaphore,
    all: u32,
    /// What was taken beyond all that there is, in KiB.
    owed: Mutex<u32>,
    turns: Semaphore,
}

/// Some of the room, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Arc<Room>,
    kib: u32,
}

impl Room {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        let all = kib(bytes).max(1);
        // Lossless: 32 bits.
        let free = Semaphore::new((all as usize).min(Semaphore::MAX_PERMITS));
        Arc::new(Self { free, all, owed: Mutex::default(), turns: Semaphore::new(AT_ONCE) })
    }

    /// Waits for the turn to read; those that wait are served in their order.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// Waits for so many bytes of room; more than all there is waits until nobody else has any.
    pub(super) async fn take(self: &Arc<Self>, bytes: usize) -> Taken {
        let kib = kib(bytes).min(self.all);
        if let Ok(permits) = self.free.acquire_many(kib).await {
            permits.forget();
        }
        Taken { room: Arc::clone(self), kib }
    }

    /// What is taken of all there is, in bytes.
    pub(super) fn in_use(&self) -> usize {
        (self.all as usize).saturating_sub(self.free.available_permits()) * 1024
    }

    fn owed(&self) -> MutexGuard<'_, u32> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, kib: u32) {
        let mut owed = self.owed();
        let paid = kib.min(*owed);
        *owed -= paid;
        self.free.add_permits((kib - paid) as usize);
    }
}

impl Taken {
    /// What it is for has so many bytes after all.
    pub(super) fn becomes(&mut self, bytes: usize) {
        let (had, has) = (self.kib, kib(bytes));
        self.kib = has;
        if has <= had {
            self.room.give_back(had - has);
        } else {
            let mut owed = self.room.owed();
            let found = self.room.free.forget_permits((has - had) as usize);
            // Lossless: no more than was asked for.
            *owed += has - had - found as u32;
        }
    }

    /// In bytes.
    pub(super) fn bytes(&self) -> usize {
        self.kib as usize * 1024
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.give_back(self.kib);
    }
}

/// Bytes in KiB, rounded up.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    fn is_ready<F: Future>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    const KIB: usize = 1024;

    #[test]
    fn what_is_larger_than_expected_is_paid_before_anybody_else_is_let_in() {
        let room = Room::new(10 * KIB);
        let mut first = is_ready(&mut Box::pin(room.take(4 * KIB))).unwrap();
        first.becomes(30 * KIB);
        let mut second = Box::pin(room.take(KIB));
        assert!(is_ready(&mut second).is_none());
        first.becomes(11 * KIB);
        assert!(is_ready(&mut second).is_none(), "all of the room and more is taken still");
        first.becomes(9 * KIB);
        let second = is_ready(&mut second).unwrap();
        drop((first, second));
        assert!(is_ready(&mut Box::pin(room.take(10 * KIB))).is_some(), "all of it is free again");
        assert_eq!(*room.owed(), 0);
    }

    #[test]
    fn what_takes_less_than_expected_gives_the_rest_back() {
        let room = Room::new(10 * KIB);
        let mut first = is_ready(&mut Box::pin(room.take(10 * KIB))).unwrap();
        let mut second = Box::pin(room.take(8 * KIB));
        assert!(is_ready(&mut second).is_none());
        first.becomes(2 * KIB);
        assert!(is_ready(&mut second).is_some());
    }

    #[test]
    fn what_is_larger_than_all_the_room_waits_until_it_is_alone() {
        let room = Room::new(10 * KIB);
        let first = is_ready(&mut Box::pin(room.take(1))).unwrap();
        let mut huge = Box::pin(room.take(100 * KIB));
        assert!(is_ready(&mut huge).is_none());
        let mut small = Box::pin(room.take(1));
        assert!(is_ready(&mut small).is_none(), "it would overtake the large one for ever");
        drop(first);
        let huge = is_ready(&mut huge).unwrap();
        assert!(is_ready(&mut small).is_none());
        drop(huge);
        assert!(is_ready(&mut small).is_some());
    }

    #[test]
    fn whoever_stops_waiting_takes_nothing() {
        let room = Room::new(10 * KIB);
        let first = is_ready(&mut Box::pin(room.take(6 * KIB))).unwrap();
        let mut gone = Box::pin(room.take(8 * KIB));
        assert!(is_ready(&mut gone).is_none());
        drop((gone, first));
        assert!(is_ready(&mut Box::pin(room.take(10 * KIB))).is_some());
    }
}
