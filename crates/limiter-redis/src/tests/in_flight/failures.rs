//! What follows when the store fails, or the process is stopped.

use std::{num::NonZeroU32, time::Duration};

use futures::FutureExt;
use limiter_core::{Entry, ErrorKind, Source};

use super::world::{Fate, World};
use crate::scripts::IN_FLIGHT_COMMANDS;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_permit_that_is_not_renewed_is_lost_just_before_it_expires() {
    for fate in [Fate::LostRequest, Fate::Refused("LOADING"), Fate::Refused("ERR odd")] {
        let (world, limiter, permit) = World::with_permit();
        let mut lost = world.start(limiter_core::LimiterFuture::pending({
            let lost = permit.lost();
            async move {
                lost.await;
                Ok(())
            }
        }));
        world.fate(move |_| fate);
        world.advance(Duration::from_millis(29_390));
        assert!(!permit.is_lost() && lost.take().is_none());
        world.advance(Duration::from_millis(20));
        assert!(permit.is_lost(), "{fate:?}");
        assert!(lost.take().is_some());
        let events = world.events();
        assert_eq!(events.iter().filter(|name| *name == "permit_lost").count(), 1, "{events:?}");
        assert!(limiter.counters().renewals > 3);
        // A reply that arrives now changes nothing.
        world.fate(|_| Fate::Served);
        world.advance(10 * SECOND);
        assert!(permit.is_lost());
        assert_eq!((world.members(&limiter, "alice"), limiter.held()), (0, 1));
        drop(permit);
        assert_eq!((limiter.held(), limiter.counters().permits_lost), (0, 1));
        world.advance(30 * SECOND);
        assert_eq!(world.store.tasks(), 0);
        lost = world.start(limiter_core::LimiterFuture::ready(Ok(())));
        assert!(lost.take().is_some());
    }
}

#[test]
fn a_renewal_that_failed_is_repeated_in_time() {
    let (world, limiter, permit) = World::with_permit();
    world.fate(|_| Fate::LostRequest);
    world.advance(25 * SECOND);
    world.fate(|_| Fate::Served);
    world.advance(3 * SECOND);
    let renewals = limiter.counters().renewals;
    world.advance(9 * SECOND);
    assert!(!permit.is_lost());
    assert_eq!(world.members(&limiter, "alice"), 1);
    assert!(limiter.counters().renewals - renewals <= 1);
}

/// Its reply did not count, so that the server was not called although it had answered.
#[test]
fn a_renewal_passes_an_open_breaker_and_its_reply_closes_it() {
    let (world, limiter, permit) = World::with_permit();
    world.fate(|name| if name == "renew" { Fate::Served } else { Fate::LostRequest });
    world.advance(Duration::from_millis(9_700));
    let failed = world.start(limiter.peek("bob"));
    world.advance(Duration::from_millis(260));
    assert_eq!(failed.take().unwrap().unwrap_err().kind(), ErrorKind::Undetermined);
    let refused = world.ask(limiter.peek("bob")).unwrap_err();
    assert!(refused.to_string().contains("failed recently"), "{refused}");
    world.calls();
    world.fate(|_| Fate::Served);
    world.advance(Duration::from_millis(50));
    assert_eq!(world.calls(), ["renew"]);
    assert_eq!(world.ask(limiter.peek("bob")).unwrap().held(), 0);
    assert_eq!(world.events(), ["undetermined", "breaker_opened", "breaker_closed"]);
    assert!(!permit.is_lost());
}

/// Each call that failed held up the others of its node for a second.
#[test]
fn renewals_do_not_wait_for_others_that_fail() {
    let world = World::cluster();
    let limiter = world.limiter(1);
    let names: Vec<_> = (0..30).map(|number| format!("a{number}")).collect();
    let others: Vec<_> = names.iter().map(|name| world.enter(&limiter, name)).collect();
    let permit = world.enter(&limiter, "b");
    for name in &names {
        let key = String::from_utf8(limiter.stored_key(&**name).unwrap()).unwrap();
        world.command(&["SET", &key, "foreign"]);
    }
    world.advance(40 * SECOND);
    assert!(!permit.is_lost() && others.iter().all(limiter_core::InFlightPermit::is_lost));
}

#[test]
fn a_process_that_was_stopped_sees_by_the_clock_that_a_permit_is_lost() {
    let (world, limiter, permit) = World::with_permit();
    let lost = permit.lost();
    world.jump(29 * SECOND);
    assert!(!permit.is_lost());
    world.jump(SECOND);
    // Before any task runs.
    assert!(permit.is_lost() && lost.now_or_never().is_some());
    assert_eq!(limiter.counters().permits_lost, 1);
    world.run();
    drop(permit);
    world.advance(SECOND);
    assert_eq!((limiter.counters().permits_lost, world.members(&limiter, "alice")), (1, 0));
    // Work that ends too late has overrun its permit.
    let permit = world.enter(&limiter, "alice");
    world.jump(30 * SECOND);
    drop(permit);
    assert_eq!(limiter.counters().permits_lost, 2);
}

#[test]
fn a_reply_after_the_expiry_is_no_admission() {
    let world = World::new();
    let limiter = world.limiter(1);
    world.fate(|_| Fate::Late(Duration::from_millis(10)));
    let entry = world.start(limiter.enter("alice"));
    world.jump(40 * SECOND);
    world.run();
    let error = entry.take().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undetermined);
    world.fate(|_| Fate::Served);
    world.advance(SECOND);
    assert_eq!((world.members(&limiter, "alice"), limiter.held()), (0, 0));
}

#[test]
fn a_permit_whose_reply_is_lost_is_given_back() {
    let world = World::new();
    let limiter = world.limiter(1);
    world.fate_of("enter", Fate::LostReply);
    let entry = world.start(limiter.enter("alice"));
    assert_eq!(world.members(&limiter, "alice"), 1);
    world.advance(Duration::from_millis(60));
    let error = entry.take().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undetermined);
    assert!(error.to_string().starts_with("limiter \"test\": "), "{error}");
    // A late reply would give it back. None comes, and the next call is the breaker's probe.
    world.advance(SECOND);
    assert_eq!(world.calls(), ["enter", "leave"]);
    assert_eq!((world.members(&limiter, "alice"), limiter.held()), (0, 0));
    assert_eq!(world.events(), ["undetermined", "breaker_opened", "breaker_closed"]);
    assert_eq!(limiter.counters().undetermined, 1);
}

#[test]
fn releases_are_repeated_until_the_permit_expires() {
    let (world, limiter, permit) = World::with_permit();
    world.fate_of("leave", Fate::LostRequest);
    drop(permit);
    world.advance(20 * SECOND);
    let drained = world.store.tasks();
    assert!(drained > 0 && world.calls().len() > 5);
    world.fate(|_| Fate::Served);
    world.advance(2 * SECOND);
    assert_eq!((world.members(&limiter, "alice"), limiter.counters().releases_failed), (0, 0));

    let permit = world.enter(&limiter, "alice");
    world.fate_of("leave", Fate::LostRequest);
    drop(permit);
    world.advance(40 * SECOND);
    assert_eq!((limiter.counters().releases_failed, world.store.tasks()), (1, 0));
    assert!(world.events().contains(&"release_failed".to_owned()));
    // Its place is free, because it has expired.
    assert!(world.ask(limiter.enter("alice")).unwrap().is_admitted());
}

/// It has not counted since it was lost, so nothing is left to give back.
#[test]
fn a_permit_that_was_lost_is_not_counted_as_one_that_was_not_given_back() {
    for is_dropped in [true, false] {
        let (world, limiter, permit) = World::with_permit();
        world.fate(|_| Fate::LostRequest);
        world.jump(40 * SECOND);
        // By its holder, or by the task that renews.
        let permit = (!is_dropped).then_some(permit);
        world.advance(60 * SECOND);
        drop(permit);
        world.advance(60 * SECOND);
        let counters = limiter.counters();
        assert_eq!((counters.permits_lost, counters.releases_failed), (1, 0), "{is_dropped}");
        assert!(!world.events().contains(&"release_failed".to_owned()));
    }
}

#[test]
fn tasks_that_were_dropped_with_their_runtime_are_started_anew() {
    let world = World::new();
    let limiter = world.limiter(2);
    let first = world.enter(&limiter, "alice");
    world.fate_of("renew", Fate::LostRequest);
    world.advance(Duration::from_millis(10_100));
    world.store.drop_tasks();
    world.fate(|_| Fate::Served);
    let second = world.enter(&limiter, "alice");
    world.advance(15 * SECOND);
    assert!(!first.is_lost() && !second.is_lost());
    world.advance(30 * SECOND);
    assert!(!first.is_lost() && !second.is_lost());
    drop((first, second));
    world.run();
    assert_eq!(world.members(&limiter, "alice"), 0);
}

#[test]
fn the_share_decides_without_the_store() {
    let world = World::new();
    let limiter = world.builder(5).local_share(NonZeroU32::new(2).unwrap());
    let limiter = limiter.build_on(world.client()).unwrap();
    let stored = world.enter(&limiter, "alice");
    world.fate(|_| Fate::Refused("LOADING"));
    let mut asked: Vec<_> = (0..3).map(|_| world.start(limiter.enter("alice"))).collect();
    asked.push(world.start(limiter.enter_under("bob", 1)));
    asked.push(world.start(limiter.enter_under("carol", 0)));
    let peeked = world.start(limiter.peek("alice"));
    world.advance(Duration::from_millis(100));
    let entries: Vec<_> = asked.iter().map(|it| it.take().unwrap().unwrap()).collect();
    // The permit that the store counts is one of this process's two.
    let admitted: Vec<_> = entries.iter().map(Entry::is_admitted).collect();
    assert_eq!(admitted, [true, false, false, true, false]);
    let occupancy = peeked.take().unwrap().unwrap();
    assert_eq!((occupancy.held(), occupancy.limit(), occupancy.source()), (2, 2, Source::Local));
    assert_eq!(limiter.counters().decided_locally, 6);
    let permits: Vec<_> = entries.into_iter().filter_map(Entry::into_permit).collect();
    assert!(permits.len() == 2 && permits.iter().all(|permit| !permit.can_be_lost()));
    assert_eq!(limiter.held(), 3);
    drop(permits);
    assert_eq!(limiter.held(), 1);
    drop(stored);
}

#[test]
fn without_a_share_the_error_is_returned() {
    let world = World::new();
    let limiter = world.limiter(1);
    world.fate(|_| Fate::Refused("LOADING"));
    let (entry, peeked) = (world.start(limiter.enter("a")), world.start(limiter.peek("a")));
    world.advance(Duration::from_millis(100));
    assert_eq!(entry.take().unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(peeked.take().unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(limiter.counters().decided_locally, 0);
}

/// Each command of the scripts, and PEXPIRE, which those of rates call, too. What a process gives back after the error does not
/// arrive.
#[test]
fn a_denied_command_leaves_no_key_without_an_expiry() {
    for command in IN_FLIGHT_COMMANDS.iter().chain(&["PEXPIRE"]) {
        let world = World::new();
        let limiter = world.limiter(2);
        world.client().set_up(|server| server.deny(&[command]));
        world.fate_of("leave", Fate::LostRequest);
        let mut held = Vec::new();
        for _ in 0..4 {
            match world.ask(limiter.enter("alice")) {
                Ok(entry) => held.extend(entry.into_permit()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unexpected, "{command}: {error}");
                    assert!(error.to_string().contains(command), "{command}: {error}");
                }
            }
        }
        assert!(held.len() <= 2, "{command}");
        world.client().set_up(|server| {
            assert!(server.keys().all(|(_, stored)| stored.expires_at.is_some()), "{command}");
        });
    }
}

/// A renewal that added permits of a key that was lost left it without an expiry if PEXPIRE was denied.
#[test]
fn a_denied_command_of_a_renewal_leaves_no_key_without_an_expiry() {
    for command in IN_FLIGHT_COMMANDS.iter().chain(&["PEXPIRE", "PTTL"]) {
        let world = World::new();
        let limiter = world.limiter(2);
        let permits = [(); 2].map(|()| world.enter(&limiter, "alice"));
        let key = String::from_utf8(limiter.stored_key("alice").unwrap()).unwrap();
        world.command(&["DEL", &key]);
        world.client().set_up(|server| server.deny(&[command]));
        world.advance(12 * SECOND);
        assert!(limiter.counters().renewals > 0);
        world.client().set_up(|server| {
            assert!(server.keys().all(|(_, stored)| stored.expires_at.is_some()), "{command}");
        });
        // Once it is allowed again, nothing was lost.
        world.client().set_up(|server| server.deny(&[]));
        world.advance(2 * SECOND);
        assert_eq!(world.members(&limiter, "alice"), 2, "{command}");
        assert!(permits.iter().all(|permit| !permit.is_lost()), "{command}");
    }
}

/// A permit that was taken just after a moment of renewals was first renewed after two thirds of its expiry.
#[test]
fn an_outage_of_nearly_two_thirds_of_the_expiry_loses_no_permit() {
    for taken_after in (0..10_000).step_by(500).map(Duration::from_millis) {
        let world = World::new();
        let limiter = world.limiter(10);
        let mut permits = vec![world.enter(&limiter, "alice")];
        world.advance(taken_after);
        permits.push(world.enter(&limiter, "alice"));
        world.advance(60 * SECOND);
        world.fate(|_| Fate::LostRequest);
        world.advance(18 * SECOND);
        world.fate(|_| Fate::Served);
        world.advance(30 * SECOND);
        assert!(permits.iter().all(|permit| !permit.is_lost()), "{taken_after:?}");
        assert_eq!(world.members(&limiter, "alice"), 2);
    }
}

/// 2,000 permits were renewed in one call, which held the server for 20 ms.
#[test]
fn renewals_are_one_call_after_the_other_of_200_permits() {
    let world = World::new();
    let limiter = world.limiter(10_000);
    let permits: Vec<_> = (0..2_000).map(|_| world.enter(&limiter, "alice")).collect();
    world.calls();
    world.fate(|_| Fate::Late(Duration::from_millis(10)));
    world.advance(Duration::from_millis(9_990));
    let mut most = 0;
    for _ in 0..20 {
        world.jump(Duration::from_millis(10));
        world.run();
        most = most.max(world.calls().len());
    }
    assert_eq!((most, limiter.counters().renewals), (1, 10));
    assert!(permits.iter().all(|permit| !permit.is_lost()));
}

#[test]
fn a_permit_that_is_dropped_while_it_waits_for_its_renewal_is_given_back_at_once() {
    let world = World::new();
    let limiter = world.limiter(10_000);
    let mut permits: Vec<_> = (0..300).map(|_| world.enter(&limiter, "alice")).collect();
    let last = permits.pop();
    world.calls();
    world.fate_of("renew", Fate::LostRequest);
    world.advance(10 * SECOND);
    drop(last);
    world.run();
    assert_eq!(world.calls(), ["renew", "leave"]);
    assert_eq!(world.members(&limiter, "alice"), 299);
}

/// Replies that are no decision counted as replies of the server.
#[test]
fn a_reply_that_is_no_decision_opens_the_breaker() {
    let world = World::new();
    let limiter = world.limiter(1);
    world.fate(|_| Fate::Replied(7));
    for _ in 0..30 {
        assert!(world.ask(limiter.enter("alice")).is_err());
        world.advance(Duration::from_millis(10));
    }
    assert_eq!(limiter.counters().breaker_opened, 1);
    assert!(limiter.counters().unexpected >= 25);
}
