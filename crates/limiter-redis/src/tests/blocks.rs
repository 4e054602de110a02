//! Blocks of two processes that share a server.

use std::{sync::Arc, time::Duration};

use futures::future::try_join_all;
use limiter_core::{Block, Blocks, Cost, Demand, Key, Policy, Quota, decide};

use super::{
    client::Client,
    store::{Store, unique},
};
use crate::RedisLimiter;

const MINUTE: Duration = Duration::from_secs(60);

const NONE: [Duration; 0] = [];

/// Limiters of two processes, whose checks are seen by each other at once, and their blocks.
struct Processes {
    store: Arc<Store>,
    limiters: [RedisLimiter<Client>; 2],
    blocks: [Blocks; 2],
}

impl Processes {
    fn new(block: &Block, lease: bool) -> Self {
        let (store, prefix) = (Store::new(), unique());
        let daily = Policy::gcra("test", Quota::per_day(1_000));
        let limiter = || store.limiter_with(&prefix, &daily, |it| it.denial_cache(0).lease(lease));
        let limiters = [limiter(), limiter()];
        let blocks = limiters.each_ref().map(|limiter| Blocks::new(limiter, block).unwrap());
        Self { store, limiters, blocks }
    }

    /// Strikes from both processes at the same time, and returns the lengths of the blocks that started.
    fn strike(&self, number: usize) -> Vec<Duration> {
        let strikes = self.blocks.iter().cycle().take(number).map(|it| it.strike(&alice()));
        let struck = self.store.block_on(try_join_all(strikes.collect::<Vec<_>>())).unwrap();
        struck.into_iter().flatten().collect()
    }

    /// Asks each process for a permit and whether the key is blocked, and returns the waits.
    fn waits(&self) -> [Duration; 2] {
        [0, 1].map(|process| {
            let (limiter, blocks) = (&self.limiters[process], &self.blocks[process]);
            let key = alice();
            let [strikes, block] = blocks.demands(&key);
            let list = [Demand::new(limiter, &key, Cost::ONE), strikes, block];
            drop(self.store.client.sent());
            let decision = self.store.block_on(decide(&list)).unwrap();
            assert_eq!(self.store.client.sent().len(), 1);
            let wait = decision.retry_after().unwrap();
            assert_eq!(decision.is_admitted(), wait.is_zero());
            assert_eq!(self.store.block_on(blocks.blocked_for(&key)).unwrap(), wait);
            wait
        })
    }
}

fn alice() -> Key<'static> {
    Key::from("alice")
}

#[test]
fn one_of_the_strikes_of_two_processes_starts_a_block() {
    let block = Block::after(20).within(5 * MINUTE).lasting(MINUTE).doubling(3 * MINUTE);
    let both = Processes::new(&block, false);
    for length in [1, 2, 3, 3] {
        assert_eq!(both.strike(19), NONE);
        assert_eq!(both.waits(), [Duration::ZERO; 2]);
        // 40 strikes, of which the first one starts the block, and the others do not count.
        assert_eq!(both.strike(40), [length * MINUTE]);
        let used = || both.store.block_on(both.limiters[0].peek("alice")).unwrap().used();
        let before = used();
        assert_eq!(both.waits(), [length * MINUTE; 2]);
        assert_eq!(used(), before);
        both.store.pass(length * MINUTE);
    }
    assert_eq!(both.strike(20), [3 * MINUTE]);
    both.store.block_on(both.blocks[0].reset(&alice())).unwrap();
    assert_eq!(both.waits(), [Duration::ZERO; 2]);
    assert_eq!(both.strike(20), [MINUTE]);
}

/// A store leases permits of windows and GCRA in bulk, so that the last one may not be spent at all.
#[test]
fn strikes_are_never_leased() {
    let both = Processes::new(&Block::after(2_000).within(MINUTE).lasting(MINUTE), true);
    for number in [100; 19].into_iter().chain([99]) {
        assert_eq!(both.strike(number), NONE);
    }
    assert_eq!(both.strike(100), [MINUTE]);
    assert_eq!(both.waits(), [MINUTE; 2]);
}

/// One call for each strike, and three more for a block with levels.
#[test]
fn a_strike_is_one_call() {
    let both = Processes::new(&Block::after(3).lasting(MINUTE).doubling(2 * MINUTE), false);
    for (started, calls) in [(vec![], 1), (vec![], 1), (vec![MINUTE], 4)] {
        assert_eq!(both.strike(1), started);
        assert_eq!(both.store.client.sent().len(), calls);
    }
}
