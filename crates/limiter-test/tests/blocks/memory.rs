//! `Blocks` in memory, compared with the rules.

use std::{cell::Cell, time::Duration};

use limiter_core::{
    Block, Blocks, Cost, Demand, Key, ManualClock, MemoryLimiter, OnFull, Policy, Quota, decide,
};

use limiter_test::properties;
use proptest::{prop_assert_eq, test_runner::TestRunner};

use crate::{
    rules::{Rules, Settings},
    schedule::{Step, schedules},
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Returns a limiter of 1,000 permits a day, and its clock.
pub(crate) fn limiter() -> (MemoryLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryLimiter::builder(Policy::gcra("login", Quota::per_day(1_000)));
    (builder.capacity(1_000).clock(clock.clone()).build().unwrap(), clock)
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn block(settings: &Settings) -> Block {
    let Settings { strikes, within, lasting, longest, forget_after } = *settings;
    let block = Block::after(strikes as u64).within(ms(within)).lasting(ms(lasting));
    let block = block.clear_on_success();
    match longest == lasting {
        true => block,
        false => block.doubling(ms(longest)).forget_after(ms(forget_after)),
    }
}

#[test]
fn blocks_in_memory_keep_the_rules() {
    let started = Cell::new(0);
    let law = |(settings, steps): (Settings, Vec<Step>)| {
        let (limiter, clock) = limiter();
        let blocks = Blocks::new(&limiter, &block(&settings)).unwrap();
        let (key, mut rules, mut now) = (Key::from("alice"), Rules::new(settings), 1_000_000);
        clock.advance(ms(now));
        for step in steps {
            match step {
                Step::Wait(by) => {
                    now += by;
                    clock.advance(ms(by));
                }
                Step::WaitToTheEnd { less } => {
                    let by = rules.wait(now).saturating_sub(less);
                    now += by;
                    clock.advance(ms(by));
                }
                Step::Strike => {
                    let length = blocks.strike(&key).take_ready().unwrap().unwrap();
                    prop_assert_eq!(length, rules.strike(now).map(ms));
                    started.set(started.get() + u32::from(length.is_some()));
                }
                Step::Success => {
                    blocks.success(&key).take_ready().unwrap().unwrap();
                    rules.success();
                }
                Step::Reset => {
                    blocks.reset(&key).take_ready().unwrap().unwrap();
                    rules.reset();
                }
            }
            let wait = ms(rules.wait(now));
            let blocked_for = blocks.blocked_for(&key).take_ready().unwrap().unwrap();
            prop_assert_eq!(blocked_for, wait, "{:?}", step);

            // A request of another limit, which is charged only if the key is not blocked.
            limiter.reset(key.clone());
            let [strikes, block] = blocks.demands(&key);
            let demands = [strikes, Demand::new(&limiter, &key, Cost::ONE), block];
            let decision = decide(&demands).take_ready().unwrap().unwrap();
            prop_assert_eq!(decision.is_admitted(), wait.is_zero(), "{:?}", step);
            prop_assert_eq!(decision.retry_after(), Some(wait), "{:?}", step);
            prop_assert_eq!(limiter.peek(key.clone()).used(), u64::from(wait.is_zero()));
        }
        Ok(())
    };
    TestRunner::new(properties::config(file!(), 1_000)).run(&schedules(), law).unwrap();
    // More than one a schedule.
    assert!(started.get() > properties::cases(1_000), "{started:?} blocks");
}

/// Other keys are not blocked, and a success changes nothing unless that was set.
#[test]
fn a_success_clears_nothing_by_default() {
    let (limiter, _) = limiter();
    let blocks = Blocks::new(&limiter, &Block::after(2)).unwrap();
    let (alice, bob) = (Key::from("alice"), Key::from("bob"));
    assert_eq!(blocks.strike(&alice).wait().unwrap(), None);
    blocks.success(&alice).wait().unwrap();
    assert_eq!(blocks.strike(&bob).wait().unwrap(), None);
    assert_eq!(blocks.strike(&alice).wait().unwrap(), Some(15 * MINUTE));
    assert_eq!(blocks.blocked_for(&bob).wait().unwrap(), Duration::ZERO);
}

/// By default, levels are kept for so long that a key that strikes slowly stays at the longest block.
#[test]
fn slow_strikes_keep_the_longest_block() {
    let (limiter, clock) = limiter();
    let block = Block::after(3).within(10 * MINUTE).lasting(MINUTE).doubling(60 * MINUTE);
    let blocks = Blocks::new(&limiter, &block).unwrap();
    let key = Key::from("alice");
    let mut lengths = Vec::new();
    for _ in 0..20 {
        for _ in 0..2 {
            assert_eq!(blocks.strike(&key).wait().unwrap(), None);
        }
        clock.advance(10 * MINUTE - ms(1));
        let length = blocks.strike(&key).wait().unwrap().unwrap();
        clock.advance(length);
        lengths.push(length.as_secs() / 60);
    }
    // Levels are forgotten while the blocks are still short.
    let (rising, longest) = lengths.split_at(8);
    assert_eq!(rising, [1, 2, 4, 8, 16, 16, 32, 32]);
    assert!(longest.iter().all(|length| *length == 60), "{longest:?}");
}

#[test]
fn a_key_without_a_slot_is_not_blocked() {
    for on_full in [OnFull::Refuse, OnFull::Admit] {
        for strikes in [1, 2] {
            let policy = Policy::gcra("login", Quota::per_day(1_000));
            let builder = MemoryLimiter::builder(policy).capacity(8).on_full(on_full);
            let limiter = builder.clock(ManualClock::new()).build().unwrap();
            let block = Block::after(strikes).within(10 * MINUTE).lasting(MINUTE);
            let block = block.doubling(4 * MINUTE).capacity(8);
            let blocks = Blocks::new(&limiter, &block).unwrap();
            let (mut blocked, mut without_state) = (0, 0);
            for key in (0..200_u64).map(Key::from) {
                let struck = (0..strikes).filter_map(|_| blocks.strike(&key).wait().unwrap());
                let struck: Vec<_> = struck.collect();
                let wait = blocks.blocked_for(&key).wait().unwrap();
                match struck.as_slice() {
                    [length] => {
                        assert_eq!((*length, wait), (MINUTE, MINUTE));
                        blocked += 1;
                    }
                    [] => {
                        // Its strikes may have a slot, and be full.
                        assert!(wait.is_zero() || wait == 10 * MINUTE, "{wait:?}");
                        without_state += 1;
                    }
                    lengths => panic!("{lengths:?}"),
                }
            }
            assert!(blocked > 0 && without_state > 0, "{on_full:?}, {strikes}: {blocked}");
        }
    }
}

/// 1,000 keys that are struck 9 times in an hour once used up the entries of all logs. Later users then had one entry, that
/// each strike dated anew, and were blocked though they had 5 strikes in any hour.
#[test]
fn a_flood_below_the_threshold_blocks_nobody_else() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let (limiter, clock) = limiter();
    let blocks =
        Blocks::new(&limiter, &Block::after(10).within(HOUR).lasting(HOUR).capacity(1_000))
            .unwrap();
    let strike = |key: Key<'_>| blocks.strike(&key).wait().unwrap();
    for step in 0..4 * 45 {
        // Every 400 s: 9 in an hour.
        if step % 5 == 0 {
            let blocked = (0..1_000_u64).filter_map(|key| strike(key.into())).count();
            assert_eq!(blocked, 0, "of the flood, in step {step}");
        }
        // Every 12 minutes.
        if step >= 45 && step % 9 == 0 {
            let blocked = (0..50).filter_map(|user| strike(("user", user).into())).count();
            assert_eq!(blocked, 0, "of 50 users, in step {step}");
        }
        clock.advance(HOUR / 45);
    }
}

/// Two rules of one limiter may each ask about its blocks: the key was refused for ever.
#[test]
fn the_demands_of_a_key_may_be_in_a_list_twice() {
    let (limiter, _) = limiter();
    let blocks = Blocks::new(&limiter, &Block::after(1)).unwrap();
    let key = Key::from("alice");
    let decided = || {
        let [strikes, block] = blocks.demands(&key);
        let request = Demand::new(&limiter, &key, Cost::ONE);
        let demands = [strikes.clone(), block.clone(), request, strikes, block];
        decide(&demands).take_ready().unwrap().unwrap()
    };
    assert!(decided().is_admitted());
    assert_eq!(limiter.peek(key.clone()).used(), 1);
    blocks.strike(&key).wait().unwrap();
    assert_eq!(decided().retry_after(), Some(15 * MINUTE));
}
