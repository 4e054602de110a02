//! `Blocks` in a store that answers later, and that fails.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use limiter_core::{Block, Blocks, ErrorKind, Key, LimiterFuture};
use limiter_test::deferred::Deferred;

use crate::memory::{MINUTE, limiter};

fn poll<T>(future: &mut LimiterFuture<T>) -> Poll<Result<T, limiter_core::Error>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls so many times, or until the future is ready.
fn poll_up_to<T>(
    polls: usize,
    future: &mut LimiterFuture<T>,
) -> Poll<Result<T, limiter_core::Error>> {
    let ready = (0..polls).map(|_| poll(future)).find(Poll::is_ready);
    ready.unwrap_or(Poll::Pending)
}

fn run<T>(mut future: LimiterFuture<T>) -> Result<T, limiter_core::Error> {
    loop {
        if let Poll::Ready(result) = poll(&mut future) {
            return result;
        }
    }
}

#[test]
fn a_store_executes_strikes_when_they_are_polled() {
    let (limiter, clock) = limiter();
    let block = Block::after(2).lasting(MINUTE).doubling(4 * MINUTE).clear_on_success();
    let blocks = Blocks::new(&Deferred::new(limiter), &block).unwrap();
    let key = Key::from("alice");
    assert!(blocks.strike(&key).as_ready().is_none());
    for length in [1, 2, 4, 4] {
        assert_eq!(run(blocks.strike(&key)).unwrap(), None);
        assert_eq!(run(blocks.strike(&key)).unwrap(), Some(length * MINUTE));
        assert_eq!(run(blocks.strike(&key)).unwrap(), None);
        assert_eq!(run(blocks.blocked_for(&key)).unwrap(), length * MINUTE);
        clock.advance(length * MINUTE);
        assert_eq!(run(blocks.blocked_for(&key)).unwrap(), Duration::ZERO);
    }
    run(blocks.strike(&key)).unwrap();
    run(blocks.success(&key)).unwrap();
    assert_eq!(run(blocks.strike(&key)).unwrap(), None);
    assert_eq!(run(blocks.strike(&key)).unwrap(), Some(MINUTE));
    run(blocks.reset(&key)).unwrap();
    assert_eq!(run(blocks.blocked_for(&key)).unwrap(), Duration::ZERO);
}

/// The store fails after each number of polls of the strike that starts a block.
#[test]
fn a_key_whose_block_was_not_written_is_refused_until_its_strikes_are_over() {
    let mut waits = Vec::new();
    for polls in 0.. {
        let (limiter, clock) = limiter();
        let store = Deferred::new(limiter);
        let block = Block::after(2).within(10 * MINUTE).lasting(MINUTE).doubling(4 * MINUTE);
        let blocks = Blocks::new(&store, &block).unwrap();
        let key = Key::from("alice");
        run(blocks.strike(&key)).unwrap();
        let mut strike = blocks.strike(&key);
        let result = poll_up_to(polls, &mut strike);
        let is_over = result.is_ready();
        store.set_failing(true);
        let result = match result {
            Poll::Ready(result) => result,
            Poll::Pending => run(strike),
        };
        store.set_failing(false);
        let wait = run(blocks.blocked_for(&key)).unwrap();
        match result {
            Ok(length) => assert_eq!(length, Some(MINUTE)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
        }
        // Without a block, the next strike starts one, at once or as soon as there is room for it.
        clock.advance(wait);
        let next = run(blocks.strike(&key)).unwrap();
        let next = next.or_else(|| run(blocks.strike(&key)).unwrap());
        assert!(next.is_some(), "after {polls} polls");
        waits.push(wait);
        if is_over {
            break;
        }
    }
    // The strike was not counted, the block was not written, and all was.
    waits.dedup();
    assert_eq!(waits, [Duration::ZERO, 10 * MINUTE, MINUTE]);
}

/// A strike that starts a block stalls after each number of polls, until its strikes no longer count and others have
/// started a block.
#[test]
fn a_stalled_strike_changes_no_block_of_others() {
    let mut stalled = Vec::new();
    for polls in 0.. {
        let (limiter, clock) = limiter();
        let block = Block::after(2).within(10 * MINUTE).lasting(20 * MINUTE);
        let block = block.doubling(160 * MINUTE).forget_after(10_000 * MINUTE);
        let blocks = Blocks::new(&Deferred::new(limiter), &block).unwrap();
        let key = Key::from("alice");
        run(blocks.strike(&key)).unwrap();
        let mut strike = blocks.strike(&key);
        let result = poll_up_to(polls, &mut strike);
        if result.is_ready() {
            break;
        }
        clock.advance(10 * MINUTE);
        let others = [(); 2].map(|()| run(blocks.strike(&key)).unwrap());
        let wait = run(blocks.blocked_for(&key)).unwrap();
        let own = run(strike).unwrap();
        assert_eq!(run(blocks.blocked_for(&key)).unwrap(), wait, "after {polls} polls");

        // Only blocks that were written have raised the level.
        let written = own.into_iter().chain(others.into_iter().flatten()).count();
        assert_eq!(written, 1, "after {polls} polls: {own:?}, {others:?}");
        stalled.push(own.is_none());
        clock.advance(wait);
        let next = [(); 2].map(|()| run(blocks.strike(&key)).unwrap());
        assert_eq!(next, [None, Some(40 * MINUTE)], "after {polls} polls");
    }
    // It found the block of others, before it has written its own.
    stalled.dedup();
    assert_eq!(stalled, [true, false]);
}

/// A strike that starts a block on its own finds that the key is not blocked, and stalls until another one has started a
/// block.
#[test]
fn a_strike_beside_the_start_of_a_block_leaves_nothing() {
    let mut own = Vec::new();
    for polls in 0.. {
        let (limiter, clock) = limiter();
        let block = Block::after(1).within(10 * MINUTE).lasting(MINUTE);
        let blocks = Blocks::new(&Deferred::new(limiter), &block).unwrap();
        let key = Key::from("alice");
        let mut strike = blocks.strike(&key);
        let result = poll_up_to(polls, &mut strike);
        if result.is_ready() {
            break;
        }
        let other = run(blocks.strike(&key)).unwrap();
        own.push(run(strike).unwrap());
        let started: Vec<_> = own[polls].into_iter().chain(other).collect();
        assert_eq!(started, [MINUTE], "after {polls} polls");
        assert_eq!(run(blocks.blocked_for(&key)).unwrap(), MINUTE, "after {polls} polls");
        clock.advance(MINUTE);
        assert_eq!(run(blocks.blocked_for(&key)).unwrap(), Duration::ZERO, "after {polls} polls");
    }
    own.dedup();
    assert_eq!(own, [None, Some(MINUTE)]);
}
