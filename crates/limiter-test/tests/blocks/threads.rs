//! Strikes of many threads at once.

use std::{
    sync::{Barrier, Mutex},
    thread,
};

use limiter_core::{Block, Blocks, Key};

use crate::memory::{MINUTE, limiter};

const THREADS: usize = 8;
const STRIKES: usize = 4;

/// The keys on which the threads start together.
const ROUNDS: usize = 1_000;

#[test]
fn exactly_one_of_the_strikes_at_once_starts_a_block() {
    for strikes in [1, 2, 8, THREADS * STRIKES] {
        let (limiter, clock) = limiter();
        let block = Block::after(strikes as u64).within(60 * MINUTE).lasting(MINUTE);
        let blocks = Blocks::new(&limiter, &block.doubling(8 * MINUTE)).unwrap();
        let (together, lengths) = (Barrier::new(THREADS), Mutex::new(vec![Vec::new(); ROUNDS]));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        together.wait();
                        for _ in 0..STRIKES {
                            let length = blocks.strike(&Key::from(round as u64)).wait().unwrap();
                            lengths.lock().unwrap()[round].extend(length);
                        }
                    }
                });
            }
        });
        for (round, lengths) in lengths.into_inner().unwrap().into_iter().enumerate() {
            assert_eq!(lengths, [MINUTE], "{strikes} strikes, round {round}");
            assert_eq!(blocks.blocked_for(&Key::from(round as u64)).wait().unwrap(), MINUTE);
        }

        // None of the strikes counts after the block, and one level was charged.
        clock.advance(MINUTE);
        for key in (0..ROUNDS as u64).map(Key::from) {
            let length = |_| blocks.strike(&key).wait().unwrap();
            assert!((1..strikes).all(|strike| length(strike).is_none()), "{strikes} strikes");
            assert_eq!(length(strikes), Some(2 * MINUTE), "{strikes} strikes");
        }
    }
}
