//! Random calls for requests in flight, on the keys of two subjects, and what others have planted there.

use std::{cell::Cell, time::Duration};

use bytes::Bytes;
use limiter_test::properties;
use limiter_twins::{Reply, Server, Stored};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};

use super::{
    CALLS, START,
    choice::{Choice, SUBJECTS},
    rig::Rig,
};
use crate::{
    ScriptCall,
    scripts::{self, Scripts, in_flight::PermitId},
    tests::store::Store,
};

/// A real server and one of twins that get the same calls.
struct Pair {
    server: Server,
    rig: Rig,
    steps: Vec<(String, Reply, Vec<Option<Stored>>)>,
    /// The ids that were used, with the subjects.
    used: Vec<(usize, Bytes)>,
}

impl Pair {
    fn new() -> Self {
        let mut server = Server::new(scripts::all());
        for (_, text) in scripts::all() {
            server.execute(&["SCRIPT", "LOAD", text], START);
        }
        let rig = Rig::new(usize::try_from(SUBJECTS).unwrap());
        Self { server, rig, steps: Vec::new(), used: Vec::new() }
    }

    fn key(&self, subject: usize) -> Bytes {
        self.rig.key(subject).to_owned().into()
    }

    fn call(&mut self, now: i64, call: &ScriptCall, subjects: &[usize]) -> Reply {
        let reply = self.server.execute(&call.args(), now);
        let stored = call.keys.iter().map(|key| self.server.stored(key).cloned()).collect();
        self.rig.call(now, call, subjects);
        self.steps.push((format!("{now}: {:?}", &call.args()[2..]), reply.clone(), stored));
        reply
    }

    fn plant(&mut self, now: i64, name: &str, subject: usize, rest: &[&str]) {
        let words: Vec<_> = [name, self.rig.key(subject)].iter().chain(rest).copied().collect();
        let reply = self.server.execute(&words, now);
        let stored = vec![self.server.stored(self.rig.key(subject).as_bytes()).cloned()];
        self.steps.push((format!("{now}: {words:?}"), reply, stored));
        self.rig.command(now, name, subject, rest);
    }

    /// Calls what a random number chooses.
    fn random(&mut self, now: i64, number: u64) {
        let mut choice = Choice(number);
        let scripts = Scripts::shared();
        let subject = choice.subject();
        let limit = u32::try_from(choice.below(6)).unwrap();
        // Processes with other settings, too.
        let expiry = Duration::from_micros([3_000_000, 3_000_000, 1_000_500][choice.index(3)]);
        match choice.below(40) {
            0 => {
                self.call(now, &scripts.delete(self.key(subject)), &[subject]);
            }
            1 => self.plant(now, "SET", subject, &["not a set"]),
            2 => {
                let score = (now + [90_000_000_000, -5, 1_000][choice.index(3)]).to_string();
                self.plant(now, "ZADD", subject, &[&score, "foreign"]);
            }
            3..=8 => {
                let id = Bytes::new();
                let call = scripts.enter(self.key(subject), id, limit, expiry);
                self.call(now, &call, &[subject]);
            }
            9..=16 => {
                let groups = self.groups(&mut choice);
                let permits = groups.iter().map(|(_, ids)| {
                    let permit = |id: &Bytes| PermitId { id: id.clone(), limit: limit + 1 };
                    ids.iter().map(permit).collect::<Vec<_>>()
                });
                let permits: Vec<_> = permits.collect();
                let keys: Vec<_> = groups.iter().map(|(subject, _)| self.key(*subject)).collect();
                let parts = keys.iter().zip(permits.iter().map(Vec::as_slice));
                let subjects: Vec<_> = groups.iter().map(|(subject, _)| *subject).collect();
                self.call(now, &scripts.renew(parts, expiry), &subjects);
            }
            17..=24 => {
                let groups = self.groups(&mut choice);
                let keys: Vec<_> = groups.iter().map(|(subject, _)| self.key(*subject)).collect();
                let parts = keys.iter().zip(groups.iter().map(|(_, ids)| ids.as_slice()));
                let subjects: Vec<_> = groups.iter().map(|(subject, _)| *subject).collect();
                self.call(now, &scripts.leave(parts), &subjects);
            }
            _ => {
                let id = Bytes::from(format!("id{}", self.used.len()));
                self.used.push((subject, id.clone()));
                let call = scripts.enter(self.key(subject), id, limit, expiry);
                self.call(now, &call, &[subject]);
            }
        }
    }

    /// Returns ids of one or both subjects, some of which were never taken or were given back.
    fn groups(&self, choice: &mut Choice) -> Vec<(usize, Vec<Bytes>)> {
        let mut groups: Vec<(usize, Vec<Bytes>)> = Vec::new();
        let count = 1 + choice.index(2);
        for subject in 0..count {
            let of_subject = self.used.iter().rev().filter(|(other, _)| *other == subject);
            let ids = of_subject.take(6).filter(|_| choice.below(3) > 0).map(|(_, id)| id.clone());
            let ids: Vec<_> = ids.collect();
            if !ids.is_empty() {
                groups.push((subject, ids));
            }
        }
        groups
    }

    fn compare(&mut self, store: &Store) -> Result<(), TestCaseError> {
        let all = self.rig.run(store);
        prop_assert_eq!(all.len(), self.steps.len());
        for (done, (call, reply, stored)) in all.iter().zip(&self.steps) {
            let is_same = match (&done.reply, reply) {
                (Reply::Error(error), Reply::Error(twin)) => error.contains(twin),
                (real, twin) => real == twin,
            };
            prop_assert!(is_same, "{:?}, twin {reply:?} of {call}", done.reply);
            prop_assert!(done.stored == *stored, "{:?}, twin {stored:?} of {call}", done.stored);
        }
        Ok(())
    }
}

/// How often each kind of reply was seen, so that the schedules cover all of them.
#[derive(Debug, Default)]
struct Seen {
    admitted: Cell<usize>,
    refused: Cell<usize>,
    errors: Cell<usize>,
    renewed: [Cell<usize>; 3],
    texts: Cell<usize>,
}

impl Seen {
    fn note(&self, steps: &[(String, Reply, Vec<Option<Stored>>)]) {
        let add = |count: &Cell<usize>| count.set(count.get() + 1);
        for (_, reply, _) in steps {
            match reply {
                Reply::Error(_) => add(&self.errors),
                Reply::Array(all) if all.len() == 2 && all[0] == Reply::Integer(1) => {
                    add(&self.admitted);
                }
                Reply::Array(all) if all.len() == 2 && all[0] == Reply::Integer(0) => {
                    add(&self.refused);
                }
                Reply::Array(all) => all.iter().for_each(|one| match one {
                    Reply::Integer(renewed @ 0..=2) => {
                        add(&self.renewed[usize::try_from(*renewed).unwrap()]);
                    }
                    Reply::Text(_) => add(&self.texts),
                    _ => {}
                }),
                _ => {}
            }
        }
    }
}

#[test]
fn permits_of_requests_in_flight_and_their_twins_agree() {
    let (store, seen, calls) = (Store::new(), Seen::default(), Cell::new(0));
    let gap = prop_oneof![
        6 => 0..=200_000_i64,
        2 => 0..=2_000_000_i64,
        1 => 3_000_000..=5_000_000_i64,
        1 => -2_000_000..=0_i64,
    ];
    let steps = vec((gap, any::<u64>()), 1..CALLS);
    let result = TestRunner::new(properties::config(file!(), 64)).run(&steps, |steps| {
        let (mut pair, mut now) = (Pair::new(), START);
        for (gap, number) in steps {
            now += gap;
            pair.random(now, number);
        }
        seen.note(&pair.steps);
        calls.set(calls.get() + pair.steps.len());
        pair.compare(&store)
    });
    println!("in flight: {} calls, {seen:?}", calls.get());
    result.unwrap();
    let Seen { admitted, refused, errors, renewed, texts } = &seen;
    for count in [admitted, refused, errors, texts].into_iter().chain(renewed) {
        assert!(count.get() > 0, "{seen:?}");
    }
}
