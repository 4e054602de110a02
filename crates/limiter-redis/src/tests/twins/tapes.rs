//! Tapes of entries: those that a ledger leaves are whole, and those that it finds cost no error, and
//! no more than one recovery.

use std::time::Duration;

use fred::types::Value as Reply;
use limiter_core::{Cost, Kind, Policy, Quota, Timestamp, algorithm::Slots};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{
    config,
    found::{NOW, numbers},
    policies,
    rig::{Done, Rig, scripts_time},
    value::Value,
};
use crate::{
    scripts::{Call, PRELUDE, Plan},
    tests::store::{EPOCH, Store},
};

/// Returns whether what a tape tells of its entries is true: their sum and number, and when the oldest was
/// taken.
pub(super) fn is_whole(list: &[String]) -> bool {
    let Some((head, entries)) = list.split_first() else {
        return true;
    };
    let head = head.split('|').next().unwrap_or_default();
    let told: Option<Vec<u64>> = head.split(':').map(|number| number.parse().ok()).collect();
    let parsed: Option<Vec<(u64, u64)>> = entries.iter().map(|entry| entry_of(entry)).collect();
    let (Some(&[total, size, tail, _expires]), Some(parsed)) = (told.as_deref(), parsed) else {
        return false;
    };
    let newest_first = parsed.is_sorted_by(|one, other| one.0 > other.0);
    let sum = parsed.iter().map(|(_, count)| count).sum::<u64>();
    let oldest = parsed.last().map_or(0, |(at, _)| *at);
    newest_first && (total, size, tail) == (sum, entries.len() as u64, oldest)
}

fn entry_of(text: &str) -> Option<(u64, u64)> {
    let (at, count) = match text.split_once(':') {
        Some(parts) => parts,
        None => text.split_at_checked(text.len().checked_sub(4)?)?,
    };
    Some((at.parse().ok()?, count.parse().ok()?))
}

/// Returns until when the key has to be there, as far as the newest entry tells.
pub(super) fn counts_till(list: &[String]) -> i128 {
    list.get(1).and_then(|newest| entry_of(newest)).map_or(0, |(at, _)| at.into())
}

/// Returns entries of nine bytes, of which some are near the present.
fn entry() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..10_000_000_u64, 0..5_u32).prop_map(|(before, count)| {
            let at = (scripts_now() - before).to_le_bytes();
            [&at[..6], &count.to_le_bytes()[..3]].concat()
        }),
        1 => vec(any::<u8>(), 9),
    ]
}

fn scripts_now() -> u64 {
    u64::try_from(scripts_time(NOW.saturating_add(EPOCH))).unwrap()
}

/// Returns doubles of which some are times near the present.
fn doubles() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => numbers().prop_map(|digits| digits.parse().unwrap()),
        2 => (0..100_u32).prop_map(f64::from),
        1 => any::<f64>(),
    ]
}

/// Returns the beginning of a tape, of which each part may be anything, and a tape, the whole of which
/// may be shorter.
fn tapes() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![6 => Just(1_u8), 2 => 2..=4_u8, 1 => any::<u8>()];
    let place = || prop_oneof![6 => 0..30_u32, 1 => any::<u32>()];
    let in_pocket = || prop_oneof![6 => 0..8_u8, 1 => any::<u8>()];
    let count = prop_oneof![6 => 0..9_u64, 1 => any::<u64>()];
    let head = (kind, doubles(), doubles(), doubles(), count, in_pocket(), in_pocket());
    let places = (place(), place());
    let length = prop_oneof![4 => Just(usize::MAX), 1 => 0..400_usize];
    let parts = (head, places, vec(entry(), 13), vec(entry(), 0..30), length);
    parts.prop_map(|(head, (first, stop), pocket, tape, length)| {
        let (kind, expires, total, at, count, olds, youngs) = head;
        let mut pocket = pocket.concat();
        if kind == 3 || kind == 4 {
            // What is promised holds a key as long as that was.
            pocket[..8].fill(0);
        }
        let mut bytes = [
            &[kind][..],
            &expires.to_le_bytes(),
            &total.to_le_bytes(),
            &at.to_le_bytes(),
            &count.to_le_bytes()[..5],
            &[olds, youngs],
            &first.to_le_bytes()[..3],
            &stop.to_le_bytes()[..3],
            &pocket,
            &tape.concat(),
        ]
        .concat();
        bytes.truncate(length);
        bytes
    })
}

fn ledgers() -> impl Strategy<Value = Policy> {
    let kinds = prop_oneof![
        Just(Kind::SlidingLog),
        (1..=12_u32, any::<bool>()).prop_map(|(number, loose)| {
            let slots = if loose { Slots::loose(number) } else { Slots::strict(number) };
            Kind::SubWindows(slots.unwrap())
        }),
    ];
    let permits = select(vec![1_u64, 2, 5, 100]);
    let quotas = (permits, select(vec![1_u64, 1_000, 60_000]))
        .prop_map(|(permits, ms)| Quota::per(permits, Duration::from_millis(ms)).unwrap());
    policies(kinds, quotas)
}

#[test]
fn any_tape_that_is_found_costs_one_recovery() {
    let store = Store::new();
    let cases = (ledgers(), tapes(), vec((0..5_u8, numbers()), 0..6));
    TestRunner::new(config())
        .run(&cases, |(policy, bytes, calls)| {
            let plan = Plan::new(PRELUDE, &policy).unwrap();
            let mut rig = Rig::new();
            rig.put(&store, Reply::Bytes(bytes.into()));
            let now = NOW.saturating_add(EPOCH);
            let all = calls.iter().map(|(operation, mark)| call(&plan, now, *operation, mark));
            let check = || plan.check(0, Cost::ONE);
            // What can't stay as it is, is written by the first request.
            [check()].into_iter().chain(all).for_each(|call| rig.add(now, &call));
            let recovery = policy.limits()[0].quota().window() * 2;
            let later = [now.saturating_add(recovery), now.saturating_add(recovery * 2)];
            for at in later {
                [plan.peek(0), check(), check()].iter().for_each(|call| rig.add(at, call));
            }

            let done = rig.run(&store);
            let errors: Vec<_> = done.iter().filter_map(|done| done.reply.as_ref().err()).collect();
            prop_assert!(errors.is_empty(), "{errors:?}");
            let (at_once, later) = done.split_at(done.len() - 6);
            let found = at_once.last().expect("the first request");
            let limit = policy.limits()[0].quota().permits();
            let (first, second) = later.split_at(3);
            for three in [first, second] {
                prop_assert!(three[1..].iter().all(is_tape_whole), "{three:?}");
            }
            // A check that didn't need the tape didn't see that it was torn: then this costs its recovery
            // when it is seen.
            let is_torn = matches!(&found.value, Value::Tape(list) if !is_whole(list));
            let first = if is_torn { second } else { first };
            for three in [first, second] {
                prop_assert_eq!(&three[0].reply, &Ok(vec![0, limit.into(), 0]), "left {:?}", found);
                prop_assert!(is_admission(&three[1]), "{:?}", three[1]);
            }
            Ok(())
        })
        .unwrap();
}

/// Returns a call of an operation; a refund is of a charge that may have left an entry.
fn call<'a>(plan: &'a Plan, now: Timestamp, operation: u8, mark: &str) -> Call<'a> {
    match operation {
        0 => plan.check(0, Cost::ONE),
        1 => plan.take(0, Cost::ONE, Duration::ZERO),
        2 => plan.peek(0),
        3 => {
            let now = i64::try_from(scripts_time(now)).unwrap();
            let mark = mark.parse::<i64>().unwrap_or(now).min(now + 1_000_000_000);
            let reply = [1, 0, mark - now, 0, now];
            let charged = plan.taken(0, &reply, Cost::ONE).unwrap().charged.unwrap();
            plan.refund(0, &charged, 1)
        }
        _ => plan.reset(0),
    }
}

fn is_admission(done: &Done) -> bool {
    done.reply.as_ref().is_ok_and(|reply| reply[0] > 0)
}

fn is_tape_whole(done: &Done) -> bool {
    matches!(&done.value, Value::Tape(list) if is_whole(list))
}
