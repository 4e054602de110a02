//! What the server grants by the script `lease`, in calls whose reply has reached the process.

use std::collections::BTreeMap;

use limiter_twins::Reply;

use crate::vocabulary::{Micros, ProcessId, Subject};

/// What a call of the script has charged to a key: its cost, or more as a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) key: Vec<u8>,
    pub(crate) permits: u64,
    pub(crate) is_lease: bool,
}

impl Grant {
    /// Returns what the reply to a call of the script grants. A call has the keys, as many again for the ends of leases,
    /// and seven arguments a key, of which the fifth is the cost.
    pub(crate) fn all(words: &[Vec<u8>], reply: &Reply) -> Vec<Self> {
        let number = |word: Option<&Vec<u8>>| str::from_utf8(word?).ok()?.parse::<usize>().ok();
        let Some(keys) = number(words.get(2)) else { return Vec::new() };
        let of_key = |index: usize| {
            let reply = match reply {
                only if keys == 2 => only,
                Reply::Array(replies) => replies.get(index)?,
                _ => return None,
            };
            let Reply::Array(numbers) = reply else { return None };
            let [Reply::Integer(1), _, _, Reply::Integer(permits), _, _] = numbers.as_slice()
            else {
                return None;
            };
            let cost = number(words.get(3 + keys + 7 * index + 4))? as u64;
            let (key, permits) = (words.get(3 + index)?.clone(), permits.unsigned_abs());
            Some(Self { key, permits, is_lease: permits > cost })
        };
        (0..keys / 2).filter_map(of_key).collect()
    }
}

/// How many grants there were, and how many permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) grants: u64,
    pub(crate) permits: u64,
}

impl Sum {
    const fn add(&mut self, permits: u64) {
        self.grants += 1;
        self.permits += permits;
    }
}

/// What a limiter in a process was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) leases: Sum,
    /// The costs of callers that were admitted to nobody.
    pub(crate) lost: Sum,
    /// Those of which it is not known who got them: their caller has left, or they are a part of a list.
    pub(crate) unknown: Sum,
}

/// Permits that were granted as the cost of a caller, who is admitted at once.
#[derive(Clone, Copy, Debug)]
struct Direct {
    process: ProcessId,
    limiter: usize,
    subject: Option<Subject>,
    permits: u64,
    at: Micros,
    is_known: bool,
}

/// The grants of all limiters.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    granted: BTreeMap<(ProcessId, usize), Granted>,
    direct: Vec<Direct>,
    /// How many lists are under way on a key, and until when grants may be for callers that have left.
    others: BTreeMap<(ProcessId, Subject), (u64, Micros)>,
}

/// For how long a grant may be under way to a caller that has left.
const LONGEST: Micros = 5_000_000;

impl Grants {
    /// Notes that a process has the reply that grants permits of a key, whose subject is known if it is one of those that
    /// callers ask for.
    pub(crate) fn granted(
        &mut self,
        (process, limiter, subject): (ProcessId, usize, Option<Subject>),
        (permits, is_lease): (u64, bool),
        at: Micros,
    ) {
        if is_lease {
            return self.granted.entry((process, limiter)).or_default().leases.add(permits);
        }
        let is_known = subject.is_some_and(|subject| {
            let (lists, left_until) = self.others.get(&(process, subject)).unwrap_or(&(0, 0));
            *lists == 0 && *left_until < at
        });
        self.direct.push(Direct { process, limiter, subject, permits, at, is_known });
    }

    /// Notes that a list begins or ends.
    pub(crate) fn begins_list(&mut self, process: ProcessId, subject: Subject) {
        self.others.entry((process, subject)).or_default().0 += 1;
    }

    pub(crate) fn ends_list(&mut self, process: ProcessId, subject: Subject) {
        self.others.entry((process, subject)).or_default().0 -= 1;
    }

    /// Notes that a caller has left.
    pub(crate) fn left(&mut self, process: ProcessId, subject: Subject, at: Micros) {
        self.others.entry((process, subject)).or_default().1 = at + LONGEST;
    }

    /// Notes that a caller was admitted by the store.
    pub(crate) fn admitted(
        &mut self,
        (process, subject): (ProcessId, Subject),
        permits: u64,
        at: Micros,
    ) {
        let is_it = |it: &Direct| {
            (it.process, it.subject, it.permits, it.at) == (process, Some(subject), permits, at)
        };
        if let Some(index) = self.direct.iter().position(is_it) {
            self.direct.swap_remove(index);
        }
    }

    /// Returns what a limiter was granted, when no caller is about to be admitted.
    pub(crate) fn of(&self, process: ProcessId, limiter: usize) -> Granted {
        let mut granted = self.granted.get(&(process, limiter)).copied().unwrap_or_default();
        let is_its = |it: &&Direct| (it.process, it.limiter) == (process, limiter);
        for direct in self.direct.iter().filter(is_its) {
            let sum = if direct.is_known { &mut granted.lost } else { &mut granted.unknown };
            sum.add(direct.permits);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: (ProcessId, Subject) = (ProcessId(1), Subject(0));

    #[test]
    fn a_reply_grants_leases_and_costs() {
        let arguments = ["gcra", " 1 2", "9", "5", "2", "8", "7"];
        let granted = |permits| Reply::Array([1, 5, 5, permits, 9, 9].map(Reply::Integer).to_vec());
        let call = |keys: &[&str], number: usize| {
            let head = ["EVALSHA", "sha"].iter().map(ToString::to_string);
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let words = head.chain([keys.len().to_string()]).chain(keys);
            let words = words.chain((0..number).flat_map(|_| arguments.map(str::to_owned)));
            words.map(String::into_bytes).collect::<Vec<_>>()
        };
        let grant = |key: &str, permits| Grant {
            key: key.as_bytes().to_vec(),
            permits,
            is_lease: permits > 2,
        };
        assert_eq!(Grant::all(&call(&["a", "l"], 1), &granted(8)), [grant("a", 8)]);
        let replies = vec![granted(2), Reply::Nil, granted(3)];
        let words = call(&["a", "b", "c", "l", "m", "n"], 3);
        assert_eq!(Grant::all(&words, &Reply::Array(replies)), [grant("a", 2), grant("c", 3)]);
        let refused = Reply::Array([0, 5, 0, 7].map(Reply::Integer).to_vec());
        assert_eq!(Grant::all(&call(&["a", "l"], 1), &refused), []);
    }

    #[test]
    fn a_grant_that_nobody_gets_is_lost() {
        let (process, subject) = OF;
        let of = (process, 3, Some(subject));
        let mut grants = Grants::default();
        grants.granted(of, (8, true), 5);
        grants.granted(of, (1, false), 5);
        grants.admitted(OF, 1, 5);
        let leases = Sum { grants: 1, permits: 8 };
        assert_eq!(grants.of(process, 3), Granted { leases, ..Granted::default() });
        grants.granted(of, (1, false), 7);
        grants.admitted(OF, 1, 8);
        let lost = Sum { grants: 1, permits: 1 };
        assert_eq!(grants.of(process, 3), Granted { leases, lost, unknown: Sum::default() });
        grants.left(process, subject, 10);
        grants.granted(of, (2, false), 11);
        let unknown = Sum { grants: 1, permits: 2 };
        assert_eq!(grants.of(process, 3), Granted { leases, lost, unknown });
    }
}
