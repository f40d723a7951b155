//! Waiting for an answer without a runtime.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// Whether this thread waits for something.
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread waits for an answer. It can work on it as well as any other, and no change of threads is paid
/// for.
pub(crate) fn is_waiting() -> bool {
    IS_WAITING.get()
}

/// Puts things back as they were, even after a panic.
struct Before(bool);

impl Drop for Before {
    fn drop(&mut self) {
        IS_WAITING.set(self.0);
    }
}

/// Waits for something on this thread. No thread of an asynchronous runtime may call it.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let _before = Before(IS_WAITING.replace(true));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
