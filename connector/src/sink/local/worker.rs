//! The one thread that writes: work waits for its turn there without taking a thread of its own.
//!
//! An allocator keeps memory for each thread that has used some. SQLite copies documents while it writes them, and with a pool of threads each
//! of them came to hold as much as the largest documents take. Never knows what the work is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// A thread that starts with the first work and ends with this.
#[derive(Debug, Default)]
pub(super) struct Worker {
    work: OnceLock<Sender<Work>>,
}

impl Worker {
    /// Does the work after all that was given before it; `None` where it panicked, or there is no thread to be had. Work that nobody waits for
    /// any more is done all the same.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (done, result) = oneshot::channel();
        let work = move || {
            let _ = done.send(work());
        };
        self.work.get_or_init(start).send(Box::new(work)).ok()?;
        result.await.ok()
    }
}

fn start() -> Sender<Work> {
    let (sender, receiver) = channel::<Work>();
    let body = move || {
        for work in receiver {
            // What it had begun was rolled back while it unwound, and whoever waits for it learns that nothing came.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    };
    // Without a thread the receiver is gone, and so all work is refused.
    let _ = thread::Builder::new().name("revsync-local".to_owned()).spawn(body);
    sender
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_work_is_done_by_one_thread_in_its_order() {
        let worker = Worker::default();
        let (log, mut threads) = (std::sync::Arc::new(std::sync::Mutex::new(Vec::new())), Vec::new());
        for number in 0..20 {
            let log = log.clone();
            let work = move || {
                log.lock().unwrap().push(number);
                thread::current().id()
            };
            threads.push(worker.run(work).await.unwrap());
        }
        assert!(threads.iter().all(|thread| *thread == threads[0]));
        assert_eq!(*log.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn work_that_panics_gives_nothing_and_the_next_is_done() {
        let worker = Worker::default();
        assert_eq!(worker.run(|| -> u8 { std::panic::resume_unwind(Box::new("as a bug would")) }).await, None);
        assert_eq!(worker.run(|| 7).await, Some(7));
    }
}
