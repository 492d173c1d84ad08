//! How many requests may be with the sink at once, as it keeps up or does not: the decision is [`Window`]'s, here is the waiting for it.
//!
//! Never sends anything, and never looks into an answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::metrics::instruments;
use crate::plan::limits::Window;

/// Lets requests through to the sink.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug)]
struct State {
    window: Window,
    with_the_sink: usize,
}

impl Gate {
    pub(super) fn new(most: usize) -> Self {
        Self { state: Mutex::new(State { window: Window::new(most), with_the_sink: 0 }), freed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many may be with the sink at once, now.
    pub(super) fn at_once(&self) -> usize {
        self.state().window.at_once()
    }

    /// Waits until another request may go.
    pub(super) async fn enter(&self) -> Pass<'_> {
        loop {
            let freed = self.freed.notified();
            if let Some(pass) = self.try_enter() {
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
        Some(Pass { gate: self, round: state.window.round() })
    }
}

/// A request that is with the sink, until this is dropped.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    round: u64,
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
        let gate = Gate::new(2);
        let (first, second) = (gate.try_enter().unwrap(), gate.try_enter().unwrap());
        let mut third = Box::pin(gate.enter());
        assert!(is_ready(&mut third).is_none());
        second.answered(Duration::ZERO, 0, true);
        assert!(is_ready(&mut third).is_none(), "the window is 1 now");
        drop(first);
        assert!(is_ready(&mut third).is_some());
    }

    #[test]
    fn a_window_that_grows_lets_more_than_one_through() {
        let gate = Gate::new(2);
        let only = gate.try_enter().unwrap();
        only.answered(Duration::ZERO, 0, true);
        let one = gate.try_enter().unwrap();
        let (mut two, mut three) = (Box::pin(gate.enter()), Box::pin(gate.enter()));
        assert!(is_ready(&mut two).is_none() && is_ready(&mut three).is_none());
        one.answered(Duration::ZERO, 0, false);
        let passes = (is_ready(&mut two), is_ready(&mut three));
        assert!(passes.0.is_some() && passes.1.is_some());
    }

    #[test]
    fn whoever_stops_waiting_passes_its_turn_on() {
        let gate = Gate::new(1);
        let only = gate.try_enter().unwrap();
        let (mut gone, mut next) = (Box::pin(gate.enter()), Box::pin(gate.enter()));
        assert!(is_ready(&mut gone).is_none() && is_ready(&mut next).is_none());
        drop(only);
        drop(gone);
        assert!(is_ready(&mut next).is_some());
    }
}
