//! What requests are proved with, kept until it nears its end or a server refuses it, and then fetched anew.
//!
//! AWS credentials and passwords that can be read again are kept alike. Each that is handed out has a generation, so that requests that were
//! refused with the same one bring about one refresh. Never hands out what has ended.

use std::future::Future;

use tokio::sync::Mutex;

/// Where a proof comes from, and how long it is good.
pub(super) trait Source {
    /// What is handed out.
    type Proof: Clone + PartialEq;
    /// Why there is none.
    type Error;

    /// Asks for the proof of now.
    fn fetch(&self) -> impl Future<Output = Result<Self::Proof, Self::Error>> + Send;

    /// Whether a proof may still be used.
    fn age(&self, proof: &Self::Proof) -> Age;
}

/// Whether a proof may still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// It may.
    Good,
    /// It may, and should be replaced.
    Ending,
    /// It may not.
    Over,
}

/// One proof of a source.
#[derive(Debug)]
pub(super) struct Held<S: Source> {
    source: S,
    state: Mutex<State<S::Proof>>,
}

#[derive(Debug)]
struct State<P> {
    proof: Option<P>,
    /// Counts the proofs handed out.
    generation: u64,
}

impl<S: Source> Held<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, state: Mutex::new(State { proof: None, generation: 0 }) }
    }

    #[cfg(test)]
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// The proof to use now, and which it is.
    pub(super) async fn get(&self) -> Result<(S::Proof, u64), S::Error> {
        let mut state = self.state.lock().await;
        let age = state.proof.as_ref().map(|held| self.source.age(held));
        if let (Some(held), Some(Age::Good)) = (&state.proof, age) {
            return Ok((held.clone(), state.generation));
        }
        match self.source.fetch().await {
            Ok(fresh) => {
                state.take(fresh.clone());
                Ok((fresh, state.generation))
            }
            // An outage of the source is bridged as long as what is held is good; how long that is may have changed while it was asked.
            Err(error) => match &state.proof {
                Some(held) if self.source.age(held) != Age::Over => Ok((held.clone(), state.generation)),
                _ => Err(error),
            },
        }
    }

    /// What was handed out last, unless it is being replaced just now.
    pub(super) fn last(&self) -> Option<S::Proof> {
        self.state.try_lock().ok().and_then(|state| state.proof.clone())
    }

    /// Fetches the proof anew after a server refused the one `seen`. Whether there is a new one, so that trying again makes sense.
    pub(super) async fn refresh(&self, seen: u64) -> bool {
        let mut state = self.state.lock().await;
        state.generation != seen || self.source.fetch().await.is_ok_and(|fresh| state.take(fresh))
    }
}

impl<P: PartialEq> State<P> {
    /// Puts a proof in the place of the last one. Whether it is another.
    fn take(&mut self, fresh: P) -> bool {
        let is_new = self.proof.as_ref() != Some(&fresh);
        if is_new {
            self.generation += 1;
            self.proof = Some(fresh);
        }
        is_new
    }
}
