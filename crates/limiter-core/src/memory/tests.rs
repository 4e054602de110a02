//! What only shows from inside: how often the state is asked, and what is left behind.

#![cfg(not(loom))]

use alloc::{sync::Arc, task::Wake, vec::Vec};
use core::{
    sync::atomic::{AtomicUsize, Ordering},
    task::Waker,
    time::Duration,
};

use super::{
    cell::Cell,
    engine::{Ask, Engine},
    place::{Turn, Waiter},
    store::{Moment, Tiers},
};
use crate::{
    Cost, Decision, Quota, Timestamp, Usage,
    algorithm::{Algorithm, Charge, Gcra, Mark, Tat},
};

/// GCRA that counts its decisions, made or not.
#[derive(Clone, Debug)]
struct Counted {
    gcra: Gcra,
    decisions: Arc<AtomicUsize>,
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.gcra == other.gcra
    }
}

impl Algorithm for Counted {
    type State = Tat;

    fn advance(&self, state: &mut Tat, now: Timestamp, promised: Timestamp) {
        self.gcra.advance(state, now, promised);
    }

    fn wait(&self, state: &Tat, now: Timestamp, cost: Cost) -> Option<Duration> {
        self.gcra.wait(state, now, cost)
    }

    fn owe(&self, state: &mut Tat, at: Timestamp, cost: Cost) {
        self.gcra.owe(state, at, cost);
    }

    fn adopt(&self, state: &mut Tat, from: &Self, now: Timestamp) {
        self.gcra.adopt(state, &from.gcra, now);
    }

    fn charge(&self, state: &mut Tat, at: Timestamp, cost: Cost) -> Mark {
        self.gcra.charge(state, at, cost)
    }

    fn refund(&self, state: &mut Tat, now: Timestamp, charge: &Charge, permits: u64) -> bool {
        self.gcra.refund(state, now, charge, permits)
    }

    fn usage(&self, state: &Tat, now: Timestamp) -> Usage {
        self.gcra.usage(state, now)
    }

    fn reserve(
        &self,
        state: &mut Tat,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<Charge>) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        self.gcra.reserve(state, now, cost, within)
    }
}

/// Who waits is woken by whoever holds this.
struct Flag(AtomicUsize);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn engine(burst: u64) -> (Engine<Counted, Cell<Counted>>, Arc<AtomicUsize>) {
    let quota = Quota::per_second(100).unwrap().with_burst(burst).unwrap();
    let decisions = Arc::new(AtomicUsize::new(0));
    let counted = Counted { gcra: Gcra::new(&quota).unwrap(), decisions: Arc::clone(&decisions) };
    (Engine::new(Cell::new(Arc::new(Tiers::from(counted)))), decisions)
}

/// Lets a thousand wait, each looking again when it is woken and when it is due, and returns when
/// each was admitted.
fn a_thousand_wait(engine: &Engine<Counted, Cell<Counted>>) -> Vec<Timestamp> {
    const TASKS: usize = 1_000;
    let mut now = Timestamp::ZERO;

    let flags: Vec<_> = (0..TASKS).map(|_| Arc::new(Flag(AtomicUsize::new(1)))).collect();
    let mut tickets = [const { None }; TASKS];
    let mut due = [None; TASKS];
    let mut admitted = [None; TASKS];
    while admitted.contains(&None) {
        for index in 0..TASKS {
            let woken = flags[index].0.swap(0, Ordering::Relaxed) > 0;
            if admitted[index].is_some() || !woken && due[index].is_none_or(|due| due > now) {
                continue;
            }
            let waker = Waker::from(Arc::clone(&flags[index]));
            let waiter = Waiter { cost: Cost::ONE, deadline: None, waker: &waker };
            match engine.turn(
                Ask { hash: 0, tier: 0, moment: Moment::by(&|| now) },
                &mut tickets[index],
                waiter,
            ) {
                Turn::Done((decision, _)) => {
                    assert!(decision.is_admitted());
                    admitted[index] = Some(now);
                }
                Turn::Wait(until) => due[index] = until,
            }
        }
        let woken = flags.iter().any(|flag| flag.0.load(Ordering::Relaxed) > 0);
        if let (false, Some(next)) = (woken, due.iter().flatten().filter(|due| **due > now).min()) {
            now = *next;
        }
    }
    admitted.into_iter().flatten().collect()
}

#[test]
fn each_of_a_thousand_asks_the_state_twice_at_most() {
    for burst in [1, 100] {
        let (engine, decisions) = engine(burst);
        let admitted = a_thousand_wait(&engine);
        let last = Timestamp::ZERO.saturating_add(Duration::from_millis(10) * 1_000);
        let earlier = Duration::from_millis(10) * u32::try_from(burst).unwrap();
        assert_eq!(last.saturating_since(*admitted.last().unwrap()), earlier);
        assert!(admitted.is_sorted());
        // One that is told to wait, or waits in the queue unasked, and one that is admitted.
        assert!(decisions.load(Ordering::Relaxed) <= 2_000, "{decisions:?}");
    }
}

#[test]
fn no_queue_is_left_when_no_one_waits() {
    let (engine, _) = engine(1);
    a_thousand_wait(&engine);
    let waker = Waker::noop();
    let mut tickets: Vec<_> = (0..1_000).map(|hash| (hash, None)).collect();
    let ask = |hash| Ask { hash, tier: 0, moment: Moment::by(&|| Timestamp::ZERO) };
    for (hash, ticket) in &mut tickets {
        let waiter = Waiter { cost: Cost::ONE, deadline: None, waker };
        let _ = engine.turn(ask(*hash), ticket, waiter);
    }
    assert_eq!(engine.queues().hashes().len(), 1_000);
    for (hash, ticket) in tickets {
        engine.leave(ask(hash), ticket.unwrap());
    }
    assert!((0..1_000).all(|hash| engine.queues().are_empty_for(hash)));
    assert_eq!(engine.queues().capacity(), 0);
}
