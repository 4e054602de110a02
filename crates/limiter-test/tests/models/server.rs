//! A key under GCRA on a server that runs the scripts.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex},
};

use limiter_double::{Reply, Server, Value};

use crate::admissions::Units;

/// A moment at which everything happens, in microseconds of Unix time. A unit is a microsecond.
const NOW: i64 = 1_702_080_000_000_000;

/// A server without keys, of which each key has a clone, and the scripts' digests.
static LOADED: LazyLock<(Mutex<Server>, BTreeMap<&str, String>)> = LazyLock::new(|| {
    let mut server = Server::default();
    let digests = limiter_redis::scripts::all().map(|(name, text)| {
        let Reply::Bulk(digest) = server.execute(&["SCRIPT", "LOAD", text], NOW) else {
            panic!("{name} is not loaded");
        };
        (name, String::from_utf8(digest).unwrap())
    });
    let digests = digests.collect();
    (Mutex::new(server), digests)
});

const KEY: &str = "key";

/// The fields of the debt, and of the latest end of its leases.
const FIELDS: [&str; 2] = ["gcra", "gcra:leases"];

/// A quota, in units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) increment: Units,
    pub(crate) burst: Units,
    pub(crate) horizon: Units,
}

impl Quota {
    /// Returns the arguments of the limit.
    fn arguments(&self) -> [String; 6] {
        let most = self.increment * self.burst + self.horizon;
        let numbers = [self.burst, self.increment, most, 1].map(|number| number.to_string());
        let [burst, increment, most, scale] = numbers;
        ["gcra".to_owned(), FIELDS[0].to_owned(), burst, increment, most, scale]
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
        for (field, time) in FIELDS.into_iter().zip([debt, latest_end]) {
            if time > 0 {
                server.execute(&["HSET", KEY, field, &at(time).to_string()], NOW);
            }
        }
        Self { server, quota }
    }

    /// Returns the debt.
    pub(crate) fn debt(&self) -> Units {
        self.time_at(FIELDS[0])
    }

    /// Returns how long the last lease lasts.
    pub(crate) fn latest_end(&self) -> Units {
        self.time_at(FIELDS[1])
    }

    /// Reserves permits within some time. Returns the delay, and when the debt ends.
    pub(crate) fn reserve(&mut self, cost: Units, within: Units) -> Option<(Units, Units)> {
        let head = [1, within, 1, cost].map(|number| number.to_string());
        let rest = [&head[..], &self.quota.arguments()].concat();
        match numbers(self.call("list", rest)).unwrap()[..] {
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
        match numbers(self.call("lease", rest)).unwrap()[..] {
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
        let span = self.quota.increment * self.quota.burst;
        let last = [mark - made, span].map(|number| number.to_string());
        let rest = head.chain(self.quota.arguments()).chain(last).collect();
        assert!(matches!(self.call("refund", rest), Reply::Integer(_)));
    }

    fn call(&mut self, script: &str, rest: Vec<String>) -> Reply {
        let words = ["EVALSHA", &LOADED.1[script], "1", KEY].into_iter();
        let words: Vec<_> = words.chain(rest.iter().map(String::as_str)).collect();
        self.server.execute(&words, NOW)
    }

    /// Returns how far ahead of now the time of a field is.
    fn time_at(&self, field: &str) -> Units {
        let Some(stored) = self.server.stored(KEY.as_bytes()) else { return 0 };
        let Value::Hash(fields) = &stored.value else { return 0 };
        let Some((_, time)) = fields.iter().find(|(name, _)| name == field.as_bytes()) else {
            return 0;
        };
        let ahead = str::from_utf8(time).unwrap().parse::<i64>().unwrap() - NOW;
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
