//! Signals that are passed on to the program.

#[cfg(unix)]
pub(super) use self::unix::{Receiver, Signals};

#[cfg(not(unix))]
pub(super) use self::other::{Receiver, Signals};

#[cfg(unix)]
mod unix {
    use std::fs::File;

    use rustix::process::{Signal, getpgrp};
    use tokio::signal::unix::{SignalKind, signal};
    use tokio::task::JoinSet;

    /// What a terminal sends to all programs of its foreground group.
    const OF_TERMINAL: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::WINCH];

    /// What is sent to us alone. Ctrl-Z stops us like the program, and CONT wakes both.
    const OF_OTHERS: [Signal; 5] =
        [Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2, Signal::CONT];

    /// Who gets the signals.
    #[derive(Clone)]
    pub(in super::super) enum Receiver {
        /// The guard of the program.
        #[cfg(target_os = "linux")]
        Guard(std::sync::Arc<std::os::unix::net::UnixStream>),
        /// The program itself.
        #[cfg(not(target_os = "linux"))]
        Process(u32),
    }

    impl Receiver {
        /// Waits until the program has ended, if that is told.
        pub(in super::super) fn acknowledge(&self) {
            #[cfg(target_os = "linux")]
            {
                let Self::Guard(stream) = self;
                super::super::launch::acknowledge(stream);
            }
        }

        fn send(&self, signal: Signal) {
            // The program may have ended in this very moment.
            match self {
                #[cfg(target_os = "linux")]
                Self::Guard(stream) => {
                    let mut stream: &std::os::unix::net::UnixStream = stream;
                    let _ = std::io::Write::write_all(&mut stream, &[signal.as_raw() as u8]);
                }
                #[cfg(not(target_os = "linux"))]
                Self::Process(pid) => {
                    if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                        let _ = rustix::process::kill_process(pid, signal);
                    }
                }
            }
        }
    }

    /// Signals that no longer end us.
    pub(in super::super) struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

    impl Signals {
        pub(in super::super) fn listen() -> Self {
            let all = OF_TERMINAL.into_iter().chain(OF_OTHERS);
            let heard = all.filter_map(|kind| {
                let stream = signal(SignalKind::from_raw(kind.as_raw())).ok()?;
                Some((kind, stream))
            });
            Self(heard.collect())
        }

        /// Passes them on for as long as the set is there, those that came before, too.
        pub(in super::super) fn pass_on(self, receiver: &Receiver) -> JoinSet<()> {
            let mut set = JoinSet::new();
            for (kind, mut stream) in self.0 {
                let receiver = receiver.clone();
                set.spawn(async move {
                    while stream.recv().await.is_some() {
                        // The terminal has signalled the program itself; a second signal would mean a second Ctrl-C.
                        if !(OF_TERMINAL.contains(&kind) && has_terminal()) {
                            receiver.send(kind);
                        }
                    }
                });
            }
            set
        }
    }

    /// Whether our process group, which is also the program's, is in the foreground of a terminal.
    fn has_terminal() -> bool {
        let foreground = File::open("/dev/tty").map(rustix::termios::tcgetpgrp);
        matches!(foreground, Ok(Ok(group)) if group == getpgrp())
    }
}

#[cfg(not(unix))]
mod other {
    use tokio::task::JoinSet;

    /// Ctrl-C goes to all programs of a console, so there is nothing to pass on.
    #[derive(Clone)]
    pub(in super::super) enum Receiver {
        Process(#[allow(dead_code, reason = "nothing is sent to it")] u32),
    }

    impl Receiver {
        pub(in super::super) fn acknowledge(&self) {}
    }

    pub(in super::super) struct Signals;

    impl Signals {
        pub(in super::super) fn listen() -> Self {
            Self
        }

        pub(in super::super) fn pass_on(self, _receiver: &Receiver) -> JoinSet<()> {
            let mut set = JoinSet::new();
            set.spawn(async {
                loop {
                    let _ = tokio::signal::ctrl_c().await;
                }
            });
            set
        }
    }
}
