//! Requests in flight through a store: never more than the limit, whatever is delayed, lost or stopped.
//!
//! The store has one sorted set a key: a member is the id of a permit, its score a deadline by the server's clock. With a
//! limit `L` and an expiry `E`:
//!
//! 1. The id is made before the request is sent. *Acquire* at server time `t`: if there are `L` members or more, those
//!    with a deadline up to `t` are removed. If there are still `L`, it is refused, and nothing else is written. Else the
//!    id is added with the deadline `t + E`.
//! 2. *Renew* at `t`: a member gets the deadline `t + E`, also if its own has passed, because nobody took its place. An id
//!    that is not in the set is added again if an acquire would be admitted: it is *restored*. Otherwise it is lost.
//! 3. Acquires and renewals that write set the expiry of the whole key to `t + E`.
//! 4. *Release* removes the id. It follows the end of the work. After an acquire without a reply it is sent, too.
//! 5. A holder's own deadline is `E`, less a margin, after it *sent* the last request that succeeded, by its monotonic
//!    clock. Past that the work ends. A process that was stopped reads its clock before it continues.
//!
//! So work that runs has its id in the set: the server's deadline is not earlier than the holder's own, and only its own
//! release removes an id before that. The set never exceeds `L`, because ids are added only below it. A server that loses
//! the set exceeds the limit once, by at most `L`, for at most `E`.
//!
//! There are too many states to visit all of them, so schedules are random. Each wrong rule changes one clause.

mod fleet;
mod random;
mod store;

use self::fleet::{Run, run};

type Time = i64;

const LIMIT: usize = 2;
const EXPIRY: Time = 30;

/// How much earlier than the server a holder ends its work.
const MARGIN: Time = 1;

const SCHEDULES: u64 = 3_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Right,
    /// A renewal adds an id without reading the limit.
    RenewalsAddAlways,
    /// Deadlines are by the clocks of the processes, which differ.
    ClientClocks,
    /// A holder's own deadline counts from the reply.
    DeadlinesFromTheReply,
    /// Work continues until it has ended by itself.
    NoOwnDeadlines,
    /// A permit is released while its work runs.
    EarlyReleases,
    /// A renewal leaves the expiry of the key as it was.
    NoExpiryByRenewals,
}

/// Whether the server loses all its keys in the middle of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Durable,
    Flushed,
}

#[test]
fn the_rules_keep_the_limit() {
    let runs: Vec<Run> =
        (0..SCHEDULES).map(|seed| run(seed, Rule::Right, Store::Durable)).collect();
    let exceeding = runs.iter().position(|run| run.excess > 0);
    assert_eq!(exceeding, None, "a schedule exceeds the limit");
    let admitted: usize = runs.iter().map(|run| run.admitted).sum();
    let renewed: usize = runs.iter().map(|run| run.renewed).sum();
    println!("{SCHEDULES} schedules, {admitted} admissions, {renewed} renewals");
    assert_eq!(runs.iter().map(|run| run.largest_set).max(), Some(LIMIT));
    // The schedules reach what the rules are about.
    assert!(admitted > 10 * runs.len() && renewed > runs.len());
}

#[test]
fn a_server_that_loses_its_keys_exceeds_the_limit_once() {
    let runs: Vec<Run> =
        (0..SCHEDULES / 3).map(|seed| run(seed, Rule::Right, Store::Flushed)).collect();
    // The bound is twice the limit for one expiry after the loss, and the limit at all other times.
    assert_eq!(runs.iter().position(|run| run.excess > 0), None);
    assert!(runs.iter().any(|run| run.restored > 0), "no renewal restored a permit");
    assert!(runs.iter().any(|run| run.most > LIMIT), "the loss made no difference");
}

#[test]
fn each_wrong_rule_exceeds_the_limit() {
    for (rule, store) in [
        // Unless the server lost the set, the deadline of an id that is not in it is over, and so is its holder's.
        (Rule::RenewalsAddAlways, Store::Flushed),
        (Rule::ClientClocks, Store::Durable),
        (Rule::DeadlinesFromTheReply, Store::Durable),
        (Rule::NoOwnDeadlines, Store::Durable),
        (Rule::EarlyReleases, Store::Durable),
        (Rule::NoExpiryByRenewals, Store::Durable),
    ] {
        let found = (0..SCHEDULES).find(|seed| run(*seed, rule, store).excess > 0);
        println!("{rule:?}: schedule {found:?}");
        assert!(found.is_some(), "{rule:?} was not found");
    }
}
