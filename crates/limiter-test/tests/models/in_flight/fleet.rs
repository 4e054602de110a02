//! Processes that take permits and work, over a network that delays and loses requests and replies.

use std::collections::BTreeMap;

use super::{
    EXPIRY, LIMIT, MARGIN, Rule, Store, Time,
    random::Random,
    store::{Id, Renewed, Set},
};

const TICKS: Time = 600;
const PROCESSES: usize = 3;

/// How long a process waits for the reply to an acquire.
const PATIENCE: Time = 25;

/// What a schedule has shown.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// By how much work exceeded the bound.
    pub(super) excess: usize,
    /// The most that ran at once.
    pub(super) most: usize,
    pub(super) largest_set: usize,
    pub(super) admitted: usize,
    pub(super) renewed: usize,
    pub(super) restored: usize,
}

#[derive(Default)]
struct Process {
    /// For how many ticks it is stopped.
    stopped: Time,
    /// How far its wall clock is ahead.
    skew: Time,
    permits: BTreeMap<Id, Permit>,
    /// When acquires without a reply were sent.
    asking: BTreeMap<Id, Time>,
}

struct Permit {
    /// The holder's own deadline.
    deadline: Time,
    work_ends: Time,
    renew_at: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Acquire,
    Renew,
    Release,
}

#[derive(Clone, Copy)]
struct Message {
    due: Time,
    sent: Time,
    kind: Kind,
    process: usize,
    id: Id,
    /// Of a reply: whether the permit is held.
    is_held: bool,
}

struct Fleet {
    rule: Rule,
    random: Random,
    now: Time,
    set: Set,
    processes: Vec<Process>,
    requests: Vec<Message>,
    replies: Vec<Message>,
    last_id: Id,
    run: Run,
}

/// Runs one schedule.
pub(super) fn run(seed: u64, rule: Rule, store: Store) -> Run {
    let mut fleet = Fleet::new(seed, rule);
    let loss = (store == Store::Flushed).then_some(TICKS / 2);
    for now in 0..TICKS {
        fleet.now = now;
        fleet.set.expire(now);
        if loss == Some(now) {
            fleet.set.clear();
        }
        fleet.stop_and_continue();
        fleet.execute();
        fleet.receive();
        for process in 0..PROCESSES {
            if fleet.processes[process].stopped == 0 {
                fleet.work(process);
                fleet.ask(process);
            }
        }
        let is_after_a_loss = loss.is_some_and(|loss| (loss..=loss + EXPIRY).contains(&now));
        fleet.audit(if is_after_a_loss { 2 * LIMIT } else { LIMIT });
    }
    fleet.run
}

impl Fleet {
    fn new(seed: u64, rule: Rule) -> Self {
        let mut random = Random::new(seed);
        let mut process = |_| Process { skew: random.of(&[0, 0, 40, -40]), ..Process::default() };
        let processes = (0..PROCESSES).map(&mut process).collect();
        Self {
            rule,
            random,
            now: 0,
            set: Set::new(rule),
            processes,
            requests: Vec::new(),
            replies: Vec::new(),
            last_id: 0,
            run: Run::default(),
        }
    }

    fn send(&mut self, kind: Kind, process: usize, id: Id) {
        let due = self.now + self.random.of(&[0, 1, 1, 2, 5, 20, 35]);
        self.requests.push(Message { due, sent: self.now, kind, process, id, is_held: false });
    }

    fn stop_and_continue(&mut self) {
        for process in &mut self.processes {
            if process.stopped > 0 {
                process.stopped -= 1;
            } else if self.random.percent(1) {
                process.stopped = self.random.of(&[2, 10, 50]);
            }
        }
    }

    /// The server executes the requests that arrive, in any order.
    fn execute(&mut self) {
        let now = self.now;
        let mut due: Vec<_> = self.requests.extract_if(.., |request| request.due <= now).collect();
        self.random.shuffle(&mut due);
        for request in due {
            if self.random.percent(5) {
                continue;
            }
            let Message { kind, process, id, .. } = request;
            let is_held = match kind {
                Kind::Acquire => self.set.acquire(id, now, now + self.processes[process].skew),
                Kind::Renew => {
                    let renewed = self.set.renew(id, now);
                    self.run.restored += usize::from(renewed == Renewed::Restored);
                    renewed != Renewed::Lost
                }
                Kind::Release => {
                    self.set.release(id);
                    continue;
                }
            };
            if !self.random.percent(5) {
                let due = now + self.random.of(&[0, 1, 1, 3, 15, 33]);
                self.replies.push(Message { due, is_held, ..request });
            }
        }
        self.run.largest_set = self.run.largest_set.max(self.set.len());
    }

    /// Processes that are not stopped receive their replies.
    fn receive(&mut self) {
        let (now, processes) = (self.now, &self.processes);
        let arrives =
            |reply: &mut Message| reply.due <= now && processes[reply.process].stopped == 0;
        let arrived: Vec<_> = self.replies.extract_if(.., arrives).collect();
        for reply in arrived {
            let since = if self.rule == Rule::DeadlinesFromTheReply { now } else { reply.sent };
            let deadline = since + EXPIRY - MARGIN;
            if reply.kind == Kind::Acquire {
                self.receive_permit(&reply, deadline);
                continue;
            }
            let permits = &mut self.processes[reply.process].permits;
            if !reply.is_held {
                permits.remove(&reply.id);
            } else if let Some(permit) = permits.get_mut(&reply.id) {
                permit.deadline = permit.deadline.max(deadline);
                self.run.renewed += 1;
            }
        }
    }

    fn receive_permit(&mut self, reply: &Message, deadline: Time) {
        let now = self.now;
        let process = &mut self.processes[reply.process];
        if process.asking.remove(&reply.id).is_none() || !reply.is_held {
            return;
        }
        if now >= deadline {
            // It is too late to be used.
            self.send(Kind::Release, reply.process, reply.id);
            return;
        }
        let work_ends = now + self.random.of(&[1, 5, 20, 90, 400]);
        let permit = Permit { deadline, work_ends, renew_at: now + EXPIRY / 3 };
        process.permits.insert(reply.id, permit);
        self.run.admitted += 1;
    }

    /// Ends, renews or continues with the work of a process.
    fn work(&mut self, process: usize) {
        let (now, rule) = (self.now, self.rule);
        let mut messages = Vec::new();
        self.processes[process].permits.retain(|id, permit| {
            let is_lost = now >= permit.deadline && rule != Rule::NoOwnDeadlines;
            if is_lost || now >= permit.work_ends {
                messages.push((Kind::Release, *id));
                return false;
            }
            if now >= permit.renew_at {
                messages.push((Kind::Renew, *id));
                permit.renew_at = now + EXPIRY / 3;
            } else if rule == Rule::EarlyReleases && now + 5 >= permit.work_ends {
                messages.push((Kind::Release, *id));
            }
            true
        });
        messages.into_iter().for_each(|(kind, id)| self.send(kind, process, id));
    }

    /// Gives up acquires that have no reply, and asks for another permit now and then.
    fn ask(&mut self, process: usize) {
        let now = self.now;
        let mut given_up = Vec::new();
        self.processes[process].asking.retain(|id, sent| {
            let waits = now - *sent <= PATIENCE;
            given_up.extend((!waits).then_some(*id));
            waits
        });
        given_up.into_iter().for_each(|id| self.send(Kind::Release, process, id));
        if self.random.percent(15) {
            self.last_id += 1;
            self.processes[process].asking.insert(self.last_id, now);
            self.send(Kind::Acquire, process, self.last_id);
        }
    }

    /// Counts the work that runs.
    fn audit(&mut self, bound: usize) {
        let runs =
            |permit: &&Permit| self.now < permit.deadline || self.rule == Rule::NoOwnDeadlines;
        let running = self.processes.iter().filter(|process| process.stopped == 0);
        let running = running.flat_map(|process| process.permits.values()).filter(runs).count();
        self.run.most = self.run.most.max(running);
        self.run.excess = self.run.excess.max(running.saturating_sub(bound));
    }
}
