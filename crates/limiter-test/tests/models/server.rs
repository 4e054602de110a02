//! A key under GCRA on a server that runs the scripts.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex},
};

use limiter_double::{Reply, Server, Value};

use crate::admissions::Units;

/// A moment at which everything happens, in microseconds of Unix time. A unit is a microsecond.
const NOW: i64 = 1_702_080_000_000_000;

/// The scripts as they are sent, which a test of limiter-redis compares.
const TEXTS: [(&str, &str); 3] = [
    ("lease", include_str!("../../../../docs/scripts/lease.lua")),
    ("policy", include_str!("../../../../docs/scripts/policy.lua")),
    ("refund", include_str!("../../../../docs/scripts/refund.lua")),
];

/// A server without keys, of which each key has a clone, and the scripts' digests.
static LOADED: LazyLock<(Mutex<Server>, BTreeMap<&str, String>)> = LazyLock::new(|| {
    let mut server = Server::default();
    let digests = TEXTS.map(|(name, text)| {
        let Reply::Bulk(digest) = server.execute(&["SCRIPT", "LOAD", text], NOW) else {
            panic!("{name} is not loaded");
        };
        (name, String::from_utf8(digest).unwrap())
    });
    (Mutex::new(server), BTreeMap::from(digests))
});

const KEYS: [&str; 2] = ["key", "key:latest-end"];

/// A quota, in units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) increment: Units,
    pub(crate) burst: Units,
    pub(crate) horizon: Units,
}

impl Quota {
    /// Returns the quota as states have it.
    fn text(&self) -> String {
        let reach = self.increment * self.burst + self.horizon;
        format!(" {} {reach}", self.increment)
    }

    /// Returns the arguments of the limit.
    fn arguments(&self) -> [String; 4] {
        let numbers = [self.burst, self.increment].map(|number| number.to_string());
        let [burst, increment] = numbers;
        ["gcra".to_owned(), self.text(), burst, increment]
    }
}

/// What a refund gives back. Times are relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Refund {
    pub(crate) permits: Units,
    pub(crate) cost: Units,
    /// The moment that it was charged for.
    pub(crate) at: Units,
    /// How long it lasts if it is a lease, else 0.
    pub(crate) length: Units,
    /// When the debt ended with the charge.
    pub(crate) mark: Units,
}

/// A key in some state.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    server: Server,
    quota: Quota,
}

impl Key {
    /// Returns a key with a debt and with leases that end after some time at the latest.
    pub(crate) fn new(quota: Quota, debt: Units, latest_end: Units) -> Self {
        let mut server = LOADED.0.lock().unwrap().clone();
        let at = |units| NOW + i64::from(units);
        let state = format!("{}{}", at(debt), quota.text());
        for (key, value, is_set) in
            [(KEYS[0], state, debt > 0), (KEYS[1], at(latest_end).to_string(), latest_end > 0)]
        {
            if is_set {
                server.execute(&["SET", key, &value], NOW);
            }
        }
        Self { server, quota }
    }

    /// Returns the debt.
    pub(crate) fn debt(&self) -> Units {
        self.time_at(KEYS[0])
    }

    /// Returns how long the last lease lasts.
    pub(crate) fn latest_end(&self) -> Units {
        self.time_at(KEYS[1])
    }

    /// Reserves permits within some time. Returns the delay, and when the debt ends.
    pub(crate) fn reserve(&mut self, cost: Units, within: Units) -> Option<(Units, Units)> {
        let head = ["1".to_owned(), within.to_string()];
        let rest = [&head[..], &self.quota.arguments(), &[cost.to_string()]].concat();
        match numbers(self.call("policy", &KEYS[..1], rest)).unwrap()[..] {
            [1, _, _, delay, _, mark] => Some((delay, mark)),
            _ => None,
        }
    }

    /// Checks one permit and asks for a lease. Returns how many permits were granted, 1 if only the check was admitted
    /// and 0 if it was refused; and the permits of a lease ahead, and when it begins.
    pub(crate) fn lease(
        &mut self,
        wanted: Units,
        length: Units,
    ) -> (Units, Option<(Units, Units)>) {
        let rest = [1, wanted, length].map(|number| number.to_string());
        let rest = [&self.quota.arguments()[..], &rest].concat();
        match numbers(self.call("lease", &KEYS, rest)).unwrap()[..] {
            [0, _, _, _] => (0, None),
            [0, _, _, _, ahead, _, _, begins] => (0, Some((ahead, begins))),
            [1, _, _, permits, _, _] => (permits, None),
            [1, _, _, permits, _, _, ahead, _, _, begins] => (permits, Some((ahead, begins))),
            ref other => panic!("{other:?}"),
        }
    }

    /// Gives permits back.
    pub(crate) fn refund(&mut self, refund: &Refund) {
        let &Refund { permits, cost, at, length, mark } = refund;
        // A reservation was charged before its moment, and anything else at its moment.
        let made = at.min(0);
        let times = [made, at].map(|at| NOW + i64::from(at));
        let head = [permits, cost].map(|number| number.to_string()).into_iter();
        let head = head.chain(times.map(|time| time.to_string())).chain([length.to_string()]);
        let rest = head.chain(self.quota.arguments()).chain([(mark - made).to_string()]);
        let rest = rest.collect();
        assert!(matches!(self.call("refund", &KEYS, rest), Reply::Integer(_)));
    }

    fn call(&mut self, script: &str, keys: &[&str], rest: Vec<String>) -> Reply {
        let count = keys.len().to_string();
        let words = ["EVALSHA", &LOADED.1[script], &count].into_iter().chain(keys.iter().copied());
        let words: Vec<_> = words.chain(rest.iter().map(String::as_str)).collect();
        self.server.execute(&words, NOW)
    }

    /// Returns how far ahead of now the time is with which a value begins.
    fn time_at(&self, key: &str) -> Units {
        let Some(stored) = self.server.stored(key.as_bytes()) else { return 0 };
        let Value::Text(text) = &stored.value else { return 0 };
        let time = str::from_utf8(text).unwrap().split(' ').next().unwrap();
        let ahead = time.parse::<i64>().unwrap() - NOW;
        Units::try_from(ahead).unwrap()
    }
}

/// Returns the numbers of a reply, `None` if it is nothing.
fn numbers(reply: Reply) -> Option<Vec<Units>> {
    // The server's time is too large a number, and is not used.
    let number = |reply| match reply {
        Reply::Integer(number) => Units::try_from(number).unwrap_or(0),
        other => panic!("{other:?}"),
    };
    match reply {
        Reply::Array(replies) => Some(replies.into_iter().map(number).collect()),
        Reply::Nil => None,
        other => panic!("{other:?}"),
    }
}
