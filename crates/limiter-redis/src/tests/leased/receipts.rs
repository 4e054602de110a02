//! Receipts and resets of keys with leases.

use std::{iter, slice, sync::Arc, time::Duration};

use futures::FutureExt as _;
use limiter_core::{Cost, LimiterFuture, Policy, Reservation, Source, Timestamp};
use limiter_test::subject::Subject;

use super::{
    super::store::{InRedis, Store, unique},
    KEY, leasing,
};

/// A receipt gives back to its lease while that or the next one is spent, and then nothing. What came back is admitted
/// once more, and no more.
#[test]
fn receipts_of_replaced_leases_give_back_what_is_admitted_again() {
    let store = Store::new();
    for algorithm in ["gcra", "fixed-window", "aligned-window", "sliding-counter"] {
        let policy = Policy::parse("test", &format!("1000/s by {algorithm}")).unwrap();
        let mut subject = leasing(&store, &policy);
        let now = Timestamp::from_nanos(0);
        let take_all = |subject: &mut InRedis| {
            let reserve = || subject.reserve(now, KEY, Cost::ONE, Duration::ZERO);
            let admitted = iter::repeat_with(reserve).take_while(Reservation::is_admitted);
            let leased = admitted.filter(|it| it.decision().source() == Source::Lease);
            leased.filter_map(Reservation::into_receipt).collect::<Vec<_>>()
        };
        let receipts = take_all(&mut subject);
        let refund = |receipt| subject.refund(now, receipt);
        let returned: Vec<_> = receipts.into_iter().map(refund).collect();
        assert!(returned.is_sorted() && returned[0] == 0, "{algorithm}: {returned:?}");
        let again = take_all(&mut subject).len() as u64;
        assert!(again > 0 && again == returned.iter().sum(), "{algorithm}: {again}");
    }
}

/// After a reset, the process that made it charges each permit anew. Another one spends what it holds.
#[test]
fn a_reset_ends_the_leases_of_its_own_process() {
    let store = Store::new();
    for algorithm in ["gcra", "fixed-window", "aligned-window", "sliding-counter"] {
        let policy = Policy::parse("test", &format!("1000/s by {algorithm}")).unwrap();
        let prefix = unique();
        let process = || store.process_of(&prefix, slice::from_ref(&policy), true);
        let (mut subject, mut other) = (process(), process());
        let now = Timestamp::from_nanos(0);
        for process in [&mut subject, &mut other] {
            while process.decide(now, KEY, Cost::ONE).source() != Source::Lease {}
        }
        subject.reset(now, KEY);
        assert_eq!(subject.peek(now, KEY).used(), 0, "{algorithm}");
        assert_eq!(other.decide(now, KEY, Cost::ONE).source(), Source::Lease, "{algorithm}");
        assert_eq!(subject.peek(now, KEY).used(), 0, "{algorithm}");
        assert!(subject.decide(now, KEY, Cost::ONE).is_admitted());
        assert!(subject.peek(now, KEY).used() > 0, "{algorithm}");
    }
}

/// The store makes the key fresh, although nobody waits for it.
#[test]
fn a_reset_whose_caller_has_left_ends_the_leases_of_its_own_process() {
    let store = Store::new();
    let policy = Policy::parse("test", "1000/s").unwrap();
    let limiter = store.limiter_with(&unique(), &policy, |builder| builder.lease(true));
    while store.block_on(limiter.check(KEY)).unwrap().source() != Source::Lease {}
    assert!(limiter.reset(KEY).now_or_never().is_none());
    let sender = Arc::clone(&limiter.sender);
    let ended = async move {
        sender.under_way.ended().await;
        Ok(())
    };
    store.block_on(LimiterFuture::pending(ended)).unwrap();
    let used = || store.block_on(limiter.peek(KEY)).unwrap().used();
    assert_eq!(used(), 0);
    assert!(store.block_on(limiter.check(KEY)).unwrap().is_admitted());
    assert!(used() > 0);
}
