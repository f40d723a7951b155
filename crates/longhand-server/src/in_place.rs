//! A task that wakes itself goes on at once.
//!
//! The parts of a connection wake each other: whoever reads a body wakes the connection, which then wakes the
//! reader. They are one task, so the runtime would put it back into its queue and wake another thread for it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often a task goes on before others have their turn.
const TURNS_MAX: usize = 16;

const WAITING: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Polls a future again if it was woken while it was polled.
pub(crate) struct InPlace<F> {
    future: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Takes the wakes of the future.
#[derive(Default)]
struct Signal {
    state: AtomicU8,
    task: AtomicWaker,
}

impl<F: Future> InPlace<F> {
    pub(crate) fn new(future: F) -> Self {
        let signal = Arc::<Signal>::default();
        let waker = Waker::from(Arc::clone(&signal));
        Self { future: Box::pin(future), signal, waker }
    }
}

impl<F: Future> Future for InPlace<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<F::Output> {
        let Self { future, signal, waker } = &mut *self;
        signal.task.register(context.waker());
        for _ in 0..TURNS_MAX {
            signal.state.store(POLLED, Ordering::SeqCst);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let state = &signal.state;
            if state.compare_exchange(POLLED, WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Poll::Pending;
            }
        }
        signal.state.store(WAITING, Ordering::SeqCst);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.state.compare_exchange(POLLED, WOKEN, success, failure) == Err(WAITING) {
            self.task.wake();
        }
    }
}
