//! What is woken by a reply that several callers wait for.

use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use limiter_core::{Decision, LimiterFuture};

use super::{
    super::{
        client::{Client, Fate},
        store::{Store, policy, unique},
    },
    KEY,
};
use crate::RedisLimiter;

/// A waker that checks the key at once, as a task does whose executor polls it where it is woken.
struct Checks {
    limiter: RedisLimiter<Client>,
    outcomes: Mutex<Vec<LimiterFuture<Decision>>>,
}

impl Wake for Checks {
    fn wake(self: Arc<Self>) {
        let checked = self.limiter.check(KEY);
        self.outcomes.lock().unwrap().push(checked);
    }
}

/// Returns whether a test ends. One that waits for a lock that its own thread has does not.
fn ends(test: impl FnOnce() + Send + 'static) -> bool {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        test();
        send.send(()).unwrap();
    });
    receive.recv_timeout(Duration::from_secs(60)).is_ok()
}

/// The next check locks what is leased of the key, which was locked while callers were woken.
#[test]
fn a_caller_that_is_woken_may_check_at_once() {
    type Act = fn(&Store);
    let cases: [(&str, Act); 3] = [
        ("a lease", |store| store.run()),
        ("an error", |store| {
            store.client.set_fate(|_| Fate::Refused("ERR"));
            store.run();
        }),
        ("the end of the runtime", |store| {
            store.client.set_fate(|_| Fate::LostRequest);
            store.run();
            store.drop_tasks();
        }),
    ];
    for (name, brings) in cases {
        let test = move || {
            let store = Store::new();
            let limiter =
                store.limiter_with(&unique(), &policy("1000/s"), |builder| builder.lease(true));
            for _ in 0..7 {
                assert!(store.block_on(limiter.check(KEY)).unwrap().is_admitted());
            }
            let outcomes = Mutex::default();
            let woken = Arc::new(Checks { limiter: limiter.clone(), outcomes });
            let waker = Waker::from(Arc::clone(&woken));
            let mut waits = pin!(limiter.check(KEY));
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            brings(&store);
            assert_eq!(woken.outcomes.lock().unwrap().len(), 1);
            assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(&waker)).is_ready());
        };
        assert!(ends(test), "{name}");
    }
}
