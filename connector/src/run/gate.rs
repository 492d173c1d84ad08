//! How many requests may be with the sink at once, as it keeps up or does not: the decision is [`Window`]'s, here is the waiting for it. And how
//! many bytes they may have together, because each has a body in memory.
//!
//! Never sends anything, and never looks into an answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::metrics::instruments;
use crate::plan::limits::Window;

/// Lets requests through to the sink.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    freed: Notify,
    /// Room for bodies, in KiB.
    room: Semaphore,
    all_room: u32,
}

#[derive(Debug)]
struct State {
    window: Window,
    with_the_sink: usize,
}

impl Gate {
    /// Lets `most` requests through at once, of so many bytes together; one that is larger goes alone.
    pub(super) fn new(most: usize, bytes: usize) -> Self {
        let all_room = kib(bytes).max(1);
        Self {
            state: Mutex::new(State { window: Window::new(most), with_the_sink: 0 }),
            freed: Notify::new(),
            // Lossless: 32 bits.
            room: Semaphore::new((all_room as usize).min(Semaphore::MAX_PERMITS)),
            all_room,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many may be with the sink at once, now.
    pub(super) fn at_once(&self) -> usize {
        self.state().window.at_once()
    }

    /// Waits until another request, of so many bytes, may go.
    pub(super) async fn enter(&self, bytes: usize) -> Pass<'_> {
        // Those that wait are served in their order, so that no large one waits for ever. It is never closed.
        let room = self.room.acquire_many(kib(bytes).min(self.all_room)).await.ok();
        loop {
            let freed = self.freed.notified();
            if let Some(mut pass) = self.try_enter() {
                pass.room = room;
                return pass;
            }
            freed.await;
        }
    }

    fn try_enter(&self) -> Option<Pass<'_>> {
        let mut state = self.state();
        if state.with_the_sink >= state.window.at_once() {
            return None;
        }
        state.with_the_sink += 1;
        instruments::requests_in_flight(state.with_the_sink);
        if state.with_the_sink < state.window.at_once() {
            self.freed.notify_one();
        }
        Some(Pass { gate: self, round: state.window.round(), room: None })
    }
}

/// A request that is with the sink, until this is dropped.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    round: u64,
    /// Held for what it takes from others.
    room: Option<SemaphorePermit<'a>>,
}

impl Pass<'_> {
    /// The sink answered, or failed in a way that says that it has too much to do.
    pub(super) fn answered(self, took: Duration, bytes: usize, asks_for_less: bool) {
        self.gate.state().window.answered(self.round, took, bytes, asks_for_less);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.with_the_sink -= 1;
        instruments::requests_in_flight(state.with_the_sink);
        drop(state);
        self.gate.freed.notify_one();
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
    use std::task::{Context, Poll, Waker};

    fn is_ready<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Option<F::Output> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn no_more_than_the_window_are_through_and_the_next_goes_when_one_comes_back() {
        let gate = Gate::new(2, 0);
        let (first, second) = (gate.try_enter().unwrap(), gate.try_enter().unwrap());
        let mut third = Box::pin(gate.enter(0));
        assert!(is_ready(&mut third).is_none());
        second.answered(Duration::ZERO, 0, true);
        assert!(is_ready(&mut third).is_none(), "the window is 1 now");
        drop(first);
        assert!(is_ready(&mut third).is_some());
    }

    #[test]
    fn a_window_that_grows_lets_more_than_one_through() {
        let gate = Gate::new(2, 0);
        let only = gate.try_enter().unwrap();
        only.answered(Duration::ZERO, 0, true);
        let one = gate.try_enter().unwrap();
        let (mut two, mut three) = (Box::pin(gate.enter(0)), Box::pin(gate.enter(0)));
        assert!(is_ready(&mut two).is_none() && is_ready(&mut three).is_none());
        one.answered(Duration::ZERO, 0, false);
        let passes = (is_ready(&mut two), is_ready(&mut three));
        assert!(passes.0.is_some() && passes.1.is_some());
    }

    #[test]
    fn whoever_stops_waiting_passes_its_turn_on() {
        let gate = Gate::new(1, 0);
        let only = gate.try_enter().unwrap();
        let (mut gone, mut next) = (Box::pin(gate.enter(0)), Box::pin(gate.enter(0)));
        assert!(is_ready(&mut gone).is_none() && is_ready(&mut next).is_none());
        drop(only);
        drop(gone);
        assert!(is_ready(&mut next).is_some());
    }

    #[test]
    fn bodies_that_are_too_large_together_go_one_after_another_and_none_is_passed_over() {
        const MIB: usize = 1 << 20;
        let gate = Gate::new(4, 20 * MIB);
        let mut large: Vec<_> = (0..3).map(|_| Box::pin(gate.enter(9 * MIB))).collect();
        let mut small = Box::pin(gate.enter(MIB));
        let passes: Vec<_> = large.iter_mut().map(is_ready).collect();
        assert!(passes[0].is_some() && passes[1].is_some() && passes[2].is_none());
        assert!(is_ready(&mut small).is_none(), "it would overtake the third for ever");
        drop(passes);
        assert!(is_ready(&mut large[2]).is_some() && is_ready(&mut small).is_some());
    }

    #[test]
    fn a_body_that_is_larger_than_all_the_room_goes_alone() {
        let gate = Gate::new(4, 1 << 20);
        let (mut huge, mut next) = (Box::pin(gate.enter(9 << 20)), Box::pin(gate.enter(1)));
        let pass = is_ready(&mut huge);
        assert!(pass.is_some() && is_ready(&mut next).is_none());
        drop(pass);
        assert!(is_ready(&mut next).is_some());
    }
}
