//! A simulation of many nodes on one database: who waits for a connection, and how long a queue becomes.
//!
//! Requests come to nodes at random. Each waits for one read, on one of its node's connections and one of the pooler's. Its
//! messages go into the queue of its node, which has one write under way at a time and takes all that waits with the next one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::rng::Rng;

/// What is simulated. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct ClusterLoad {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many connections each of them has at most.
    pub connections: usize,
    /// How many connections the pooler has to the database.
    pub pool: usize,
    /// How many of its transactions the database works on at a time: its cores, or a little more.
    pub cores: usize,
    /// How many requests come in a second, to all nodes together.
    pub requests_per_second: f64,
    /// What a read takes at the database.
    pub read_us: u64,
    /// What a write takes.
    pub write_us: u64,
    /// What each request adds to a write.
    pub entry_us: u64,
    /// How long it takes to the database and back.
    pub trip_us: u64,
    /// From when to when the database does nothing at all.
    pub outage_us: (u64, u64),
    /// How long requests come.
    pub time_us: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOutcome {
    /// How many requests came.
    pub requests: usize,
    /// How long half of them waited for their read at most.
    pub read_p50_us: u64,
    /// How long all but one in a hundred did.
    pub read_p99_us: u64,
    /// The most requests that waited in the queue of one node at a time.
    pub queue_max: usize,
    /// How long all but one in a hundred were in that queue.
    pub lag_p99_us: u64,
    /// When the last request was written.
    pub written_us: u64,
}

/// A transaction on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Read { node: usize, came_us: u64 },
    Write { node: usize, requests: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Came(usize),
    Arrived(Work),
    Done(Work),
    Answered(Work),
}

#[derive(Clone, Default)]
struct SimulatedNode {
    busy: usize,
    /// Reads that wait for a connection of this node.
    waiting: VecDeque<Work>,
    /// When what waits to be written came.
    queue: VecDeque<u64>,
    is_writing: bool,
}

struct Simulation {
    load: ClusterLoad,
    now_us: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    nodes: Vec<SimulatedNode>,
    /// What waits at the pooler, and how much is at the database.
    pooled: VecDeque<Work>,
    at_database: usize,
    reads: Vec<u64>,
    lags: Vec<u64>,
    queue_max: usize,
    written_us: u64,
}

/// Simulates a load; the same seed gives the same outcome.
pub fn simulate(load: ClusterLoad, seed: u64) -> ClusterOutcome {
    let mut rng = Rng::new(seed);
    let mut simulation = Simulation {
        load,
        now_us: 0,
        events: BinaryHeap::new(),
        number: 0,
        nodes: vec![SimulatedNode::default(); load.nodes],
        pooled: VecDeque::new(),
        at_database: 0,
        reads: Vec::new(),
        lags: Vec::new(),
        queue_max: 0,
        written_us: 0,
    };
    let mut at = 0.0;
    let pause = 1e6 / load.requests_per_second;
    loop {
        // Times between requests that know nothing of each other.
        let share = (rng.range(1..1_000_001) as f64) / 1e6;
        at -= share.ln() * pause;
        if at as u64 >= load.time_us {
            break;
        }
        simulation.plan(at as u64, Event::Came(rng.range(0..load.nodes)));
    }
    simulation.run();
    simulation.outcome()
}

impl Simulation {
    fn plan(&mut self, at_us: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at_us, self.number, event)));
    }

    fn run(&mut self) {
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            self.now_us = at_us;
            match event {
                Event::Came(node) => {
                    self.nodes[node].waiting.push_back(Work::Read { node, came_us: at_us });
                    self.nodes[node].queue.push_back(at_us);
                    self.queue_max = self.queue_max.max(self.nodes[node].queue.len());
                    self.send(node);
                }
                Event::Arrived(work) => {
                    self.pooled.push_back(work);
                    self.serve();
                }
                Event::Done(work) => {
                    self.at_database -= 1;
                    self.plan(at_us + self.load.trip_us / 2, Event::Answered(work));
                    self.serve();
                }
                Event::Answered(work) => self.answered(work),
            }
        }
    }

    /// Sends what a node has connections for; a write goes first, since there is one at a time.
    fn send(&mut self, node: usize) {
        let at_us = self.now_us + self.load.trip_us / 2;
        let load = self.load;
        let state = &mut self.nodes[node];
        let mut sent = Vec::new();
        if !state.is_writing && !state.queue.is_empty() && state.busy < load.connections {
            state.is_writing = true;
            state.busy += 1;
            sent.push(Work::Write { node, requests: state.queue.len() });
        }
        while state.busy < load.connections
            && let Some(read) = state.waiting.pop_front()
        {
            state.busy += 1;
            sent.push(read);
        }
        for work in sent {
            self.plan(at_us, Event::Arrived(work));
        }
    }

    /// The database works on as much as it can.
    fn serve(&mut self) {
        while self.at_database < self.load.pool.min(self.load.cores)
            && let Some(work) = self.pooled.pop_front()
        {
            self.at_database += 1;
            let takes_us = match work {
                Work::Read { .. } => self.load.read_us,
                // Two round trips, between which its connection waits.
                Work::Write { requests, .. } => {
                    self.load.write_us + self.load.trip_us + self.load.entry_us * requests as u64
                }
            };
            let (begins, ends) = self.load.outage_us;
            let is_out = (begins..ends).contains(&self.now_us);
            let from_us = if is_out { ends } else { self.now_us };
            self.plan(from_us + takes_us, Event::Done(work));
        }
    }

    fn answered(&mut self, work: Work) {
        let node = match work {
            Work::Read { node, came_us } => {
                self.reads.push(self.now_us - came_us);
                node
            }
            Work::Write { node, requests } => {
                let now_us = self.now_us;
                let written = self.nodes[node].queue.drain(..requests);
                self.lags.extend(written.map(|came_us| now_us - came_us));
                self.nodes[node].is_writing = false;
                self.written_us = now_us;
                node
            }
        };
        self.nodes[node].busy -= 1;
        self.send(node);
    }

    fn outcome(mut self) -> ClusterOutcome {
        self.reads.sort_unstable();
        self.lags.sort_unstable();
        let percentile = |times: &[u64], percent: usize| {
            times.get(times.len() * percent / 100).copied().unwrap_or_default()
        };
        ClusterOutcome {
            requests: self.reads.len(),
            read_p50_us: percentile(&self.reads, 50),
            read_p99_us: percentile(&self.reads, 99),
            queue_max: self.queue_max,
            lag_p99_us: percentile(&self.lags, 99),
            written_us: self.written_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A busy hour of 10⁶ sessions a day with 30 requests each: three times the mean.
    const BUSY: ClusterLoad = ClusterLoad {
        nodes: 6,
        connections: 8,
        pool: 20,
        cores: 8,
        requests_per_second: 1_050.0,
        read_us: 600,
        write_us: 4_000,
        entry_us: 500,
        trip_us: 1_000,
        outage_us: (0, 0),
        time_us: 20_000_000,
    };

    #[test]
    fn a_million_sessions_a_day_wait_for_milliseconds() {
        let outcome = simulate(BUSY, 1);
        println!("{outcome:?}");
        assert!(outcome.read_p99_us < 20_000 && outcome.lag_p99_us < 100_000, "{outcome:?}");
        let again = simulate(BUSY, 1);
        assert_eq!(format!("{outcome:?}"), format!("{again:?}"), "the seed decides");
    }

    #[test]
    fn what_breaks_first_is_the_database() {
        // Eleven times as much: its cores are busy all the time, and more nodes or connections change nothing.
        let load = ClusterLoad { requests_per_second: 12_000.0, time_us: 4_000_000, ..BUSY };
        let outcome = simulate(load, 2);
        println!("{outcome:?}");
        assert!(outcome.read_p99_us > 200_000, "{outcome:?}");
        let more = ClusterLoad { nodes: 24, pool: 80, ..load };
        assert!(simulate(more, 2).read_p99_us > 200_000);
        let cores = ClusterLoad { cores: 32, pool: 64, nodes: 24, ..load };
        let outcome = simulate(cores, 2);
        println!("{outcome:?}");
        assert!(outcome.read_p99_us < 50_000, "{outcome:?}");
    }

    #[test]
    fn what_waited_for_an_outage_is_written_soon_after_it() {
        let load = ClusterLoad { outage_us: (5_000_000, 10_000_000), ..BUSY };
        let outcome = simulate(load, 3);
        println!("{outcome:?}");
        // Five seconds of 175 requests a second and node, and nothing is lost on the way.
        assert!((700..1_200).contains(&outcome.queue_max), "{outcome:?}");
        assert!(outcome.written_us < load.time_us + 1_000_000, "{outcome:?}");
    }
}
