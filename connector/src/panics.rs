//! Panics, which are bugs: what one of them costs, and what is said of it.
//!
//! Its place in the source is told, its message never, unless it is a literal: what was formatted may quote a document. Mends nothing: whoever
//! catches one gives up what the work had in its hands.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tracing::dispatcher;

use crate::error::{Error, Kind};
use crate::record::Fault;

#[cfg(panic = "abort")]
compile_error!("a panic has to be caught, so that it costs only its record: build with panic = \"unwind\"");

/// The kind of fault that a panic is.
pub(crate) const PANIC: &str = "panic";

/// Messages are not printed, of no panic of the process.
static HIDDEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether somebody catches what happens on this thread now.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// Where it happened last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a panic is told by its place alone, and by its message only where that is a literal of the source. For a program, whose standard
/// error others keep.
pub fn hide_messages() {
    HIDDEN.store(true, Ordering::Relaxed);
    listen();
}

/// Does work of which a panic must cost nothing else.
///
/// What the work had borrowed may be left half done; the caller sees to that.
///
/// # Errors
/// It panicked: a fault of kind `panic`, which names the place in the source.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    listen();
    let outer = CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(outer);
    result.map_err(|_: Box<dyn Any + Send>| {
        let place = PLACE.take().unwrap_or_else(|| "an unknown place".to_owned());
        Fault::new(PANIC, format!("the connector panicked at {place}, which is a bug in it"))
    })
}

/// Does work that waits and may panic; a panic is a fault that names its place, and quotes nothing.
///
/// # Errors
/// It panicked, at the place that the fault names.
pub async fn guard<T>(work: impl Future<Output = T>) -> Result<T, Fault> {
    let mut work = pin!(work);
    poll_fn(|context| match caught(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Err(fault) => Poll::Ready(Err(fault)),
    })
    .await
}

/// The error of reading that another thread did, and panicked; it was told there.
pub fn panicked() -> Error {
    Error::new(Kind::Bug, "the source could not be read: the connector panicked, which is a bug in it")
}

/// Hears of every panic of the process; one that nobody catches here is told as before, or as [`hide_messages`] says.
fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if CAUGHT.get() {
                PLACE.set(panic.location().map(place));
            } else if HIDDEN.load(Ordering::Relaxed) {
                tell(panic);
            } else {
                before(panic);
            }
        }));
    });
}

fn tell(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(place).unwrap_or_default();
    let said = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("the message is not shown, for it may quote a document");
    if dispatcher::has_been_set() {
        tracing::error!("the connector panicked at {place}, which is a bug in it: {said}");
    } else {
        eprintln!("error: the connector panicked at {place}, which is a bug in it: {said}");
    }
}

/// File and line, without the folders of the machine that built it.
fn place(location: &Location<'_>) -> String {
    let file = location.file();
    // A dependency's sources lie in a folder for each registry; the standard library's in one for each revision of it.
    let behind = |mark: &str| file.split_once(mark).and_then(|(_, rest)| rest.split_once('/')).map(|(_, rest)| rest);
    let file = behind("/registry/src/").or_else(|| behind("/rustc/")).unwrap_or(file);
    format!("{file}:{}", location.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(fault: Fault) -> String {
        assert_eq!(fault.kind, PANIC);
        fault.reason
    }

    #[test]
    fn a_panic_is_told_by_its_place_and_not_by_what_it_says() {
        let line = line!() + 1;
        let fault = caught(|| panic!("{} of a customer", "the name")).unwrap_err();
        assert_eq!(reason(fault), format!("the connector panicked at {}:{line}, which is a bug in it", file!()));
        assert_eq!(caught(|| 7), Ok(7));
    }

    #[test]
    fn a_panic_of_a_library_is_told_by_the_line_that_called_it() {
        let (nothing, line): (Vec<u8>, _) = (Vec::new(), line!() + 1);
        let reason = reason(caught(|| nothing[std::hint::black_box(3)]).unwrap_err());
        assert!(reason.contains(&format!("panics.rs:{line},")), "{reason}");
    }

    #[tokio::test]
    async fn work_that_waits_is_caught_when_it_goes_on() {
        let work = async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "{}", "a secret");
        };
        let reason = reason(guard(work).await.unwrap_err());
        assert!(reason.contains("panics.rs:") && !reason.contains("secret"), "{reason}");
        assert_eq!(guard(async { 7 }).await, Ok(7));
    }

    #[test]
    fn one_inside_another_is_caught_once_and_the_outer_work_goes_on() {
        let outer = caught(|| (caught(|| panic!("inside")).is_err(), CAUGHT.get()));
        assert_eq!(outer, Ok((true, true)));
        assert!(!CAUGHT.get());
    }
}
