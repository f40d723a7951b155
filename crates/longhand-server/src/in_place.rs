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
    signal: Arc<WakeSignal>,
    waker: Waker,
}

/// Takes the wakes of the future.
#[derive(Default)]
struct WakeSignal {
    state: AtomicU8,
    task: AtomicWaker,
}

impl<F: Future> InPlace<F> {
    pub(crate) fn new(future: F) -> Self {
        let signal = Arc::<WakeSignal>::default();
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

impl Wake for WakeSignal {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Counts how often the runtime would be asked to run the task again.
    #[derive(Default)]
    struct Runtime(AtomicUsize);

    impl Wake for Runtime {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls a future once that wakes itself so many times; gives how often it was polled, and its waker.
    fn polled(times: usize, runtime: &Arc<Runtime>) -> (usize, Option<Waker>) {
        let (mut polls, mut kept) = (0, None);
        let mut task = InPlace::new(std::future::poll_fn(|context| {
            polls += 1;
            kept = Some(context.waker().clone());
            if polls <= times {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        let waker = Waker::from(Arc::clone(runtime));
        let outcome = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
        assert!(outcome.is_pending());
        drop(task);
        (polls, kept)
    }

    #[test]
    fn who_wakes_itself_goes_on_until_others_have_their_turn() {
        for (times, expected) in [(0, (1, 0)), (3, (4, 0)), (100, (TURNS_MAX, 1))] {
            let runtime = Arc::<Runtime>::default();
            let (polls, _) = polled(times, &runtime);
            assert_eq!((polls, runtime.0.load(Ordering::SeqCst)), expected, "{times}");
        }
    }

    #[test]
    fn who_is_woken_later_is_run_again_once() {
        let runtime = Arc::<Runtime>::default();
        let (_, waker) = polled(2, &runtime);
        let waker = waker.unwrap();
        waker.wake_by_ref();
        waker.wake();
        assert_eq!(runtime.0.load(Ordering::SeqCst), 1);
    }
}
