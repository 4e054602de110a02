//! What services have to show after the faults have stopped.

mod clearing;
mod holding;
mod waiting;

use std::sync::{Arc, Mutex};

use limiter_core::{Error, LimiterFuture};

use crate::{
    records::Records,
    service_plan::{MAX_COST, RULES, SHARED, USER, permits},
    sync::lock,
    traffic::{Clients, Member},
    vocabulary::{KEYS, Micros, SETTLES_IN, Subject, subject},
    world::World,
};

/// The key that is struck until it is blocked.
const STRUCK: usize = 1;

/// How many requests a client makes at most until its key is blocked, and how many while it is blocked.
const UNTIL_BLOCKED: u64 = 2_000;
const WHILE_BLOCKED: u64 = 5;

/// How long cached refusals last.
const CACHED: Micros = 1_100_000;

/// What peeks have found.
type Peeked = Arc<Mutex<Vec<(Subject, u64)>>>;

impl World {
    /// Compares what keys are charged with what services have noted, and lets a key be blocked once.
    pub(crate) fn finish_services(&mut self) {
        self.compare_charges();
        if self.is_violated() {
            return;
        }
        let Some(plan) = self.processes.fleet.services.clone() else { return };
        if let Some(holding) = &plan.holding {
            self.hold_once(holding);
        }
        if plan.block.is_some() && !self.is_violated() {
            self.block_once(plan.waiting(USER).is_some());
        }
        if let Some(block) = plan.block.filter(|it| it.clears_on_success && !self.is_violated()) {
            self.clear_once(&block);
        }
        if let Some(waiting) = plan.waiting.filter(|_| !self.is_violated()) {
            self.wait_once(&waiting);
        }
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.processes.members().cloned().collect()
    }

    fn run_for(&self, time: Micros) {
        self.executor.run_until(self.executor.now() + time);
    }

    fn compare_charges(&self) {
        let members = self.members();
        let peeked = Peeked::default();
        let Some(first) = members.first() else { return };
        let (member, seen) = (Arc::clone(first), Arc::clone(&peeked));
        self.executor.spawn(first.process, async move {
            for (rule, limiter) in member.limiters.iter().enumerate() {
                for (key, name) in KEYS.iter().enumerate() {
                    let used = member.until_done(|| limiter.peek(*name)).await.map(|it| it.used());
                    lock(&seen).extend(used.map(|used| (subject(rule, key), used)));
                }
            }
        });
        self.run_for(SETTLES_IN);
        let unsure = members.iter().map(|member| member.unsure());
        let (unsent, unknown) = unsure.fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
        self.network.with_records(|records, moment| {
            records.service(moment, |auditor| {
                let unsent = MAX_COST * (unsent + auditor.services.unsent);
                let unknown = MAX_COST * (unknown + auditor.services.unknown);
                for (subject, used) in lock(&peeked).iter() {
                    auditor.balances(*subject, *used, (unsent, unknown));
                }
                for member in &members {
                    let Some(service) = &member.service else { continue };
                    let limit = permits(&service.plan.local);
                    let used = service.local.peek(SHARED).used();
                    auditor.balances_local(member.process, used, limit);
                }
            });
        });
    }

    /// Lets all processes strike a key until it is blocked, and requests of it be refused. A request that `may_wait` can be
    /// admitted after the block, and go on to strike.
    fn block_once(&mut self, may_wait: bool) {
        let struck = subject(USER, STRUCK);
        let before = self.fresh_blocks(struck);
        let clients = self.clients();
        let seen = Arc::new(Mutex::new(0_u64));
        for clients in clients {
            let seen = Arc::clone(&seen);
            self.executor.spawn(clients.member.process, async move {
                let mut left = UNTIL_BLOCKED;
                while left > 0 {
                    let is_blocked = clients.strike().await;
                    *lock(&seen) += u64::from(is_blocked);
                    left = if is_blocked { left.min(WHILE_BLOCKED) } else { left };
                    left -= 1;
                    clients.member.sleep(2_000).await;
                }
            });
        }
        self.run_for(SETTLES_IN);
        let blocks = self.network.with_records(|records, _| records.auditor.blocks(struck));
        let blocks = blocks - before;
        if blocks == 0 || blocks > 1 && !may_wait || *lock(&seen) == 0 {
            self.violated(struck, &format!("a key that was struck is blocked {blocks} times"));
        }
        // A block ends, although refusals came meanwhile.
        self.run_for(CACHED);
        let seen = Arc::new(Mutex::new(0_u64));
        // One request is at most one strike, which does not start a block.
        for clients in self.clients().into_iter().take(1) {
            let seen = Arc::clone(&seen);
            self.executor.spawn(clients.member.process, async move {
                *lock(&seen) += u64::from(clients.strike().await);
            });
        }
        self.run_for(SETTLES_IN);
        if *lock(&seen) > 0 {
            self.violated(struck, "a key is refused as blocked after its block has ended");
        }
    }

    /// Resets all keys, and returns how many blocks a key has had until now.
    fn fresh_blocks(&self, subject: Subject) -> u64 {
        self.reset_all();
        self.run_for(SETTLES_IN);
        self.network.with_records(|records, _| {
            records.auditor.has_fresh_blocks(subject);
            records.auditor.blocks(subject)
        })
    }

    fn clients(&mut self) -> Vec<Arc<Clients>> {
        let members = self.members();
        let clients = members.into_iter().filter_map(|member| {
            let service = Arc::clone(member.service.as_ref()?);
            Some(Arc::new(Clients { member, service, random: self.random.fork() }))
        });
        clients.collect()
    }

    /// Resets all keys of all rules.
    fn reset_all(&self) {
        self.network.with_records(|records, _| records.auditor.resets_all_blocks());
        for (place, member) in self.members().into_iter().enumerate() {
            let Some(service) = member.service.clone() else { continue };
            self.executor.spawn(member.process, async move {
                for (rule, limiter) in service.rules.iter().enumerate() {
                    // One process resets the keys of the store.
                    if place > 0 && rule < RULES.len() {
                        continue;
                    }
                    for key in KEYS {
                        member.until_done(|| limiter.reset(&key.into())).await;
                    }
                }
            });
        }
    }
}

impl Clients {
    /// Makes a request that fails, and returns whether its key is blocked.
    async fn strike(&self) -> bool {
        self.ask_struck(true).await
    }

    /// Makes a request by the key that is struck, and returns whether the key is blocked.
    async fn ask_struck(&self, fails: bool) -> bool {
        self.request(self.client((STRUCK, STRUCK), 1, fails, 0), None).await
    }
}

impl Member {
    /// Makes an operation again while the limiter pauses after the last failures.
    async fn until_done<T>(&self, operation: impl Fn() -> LimiterFuture<T>) -> Option<T> {
        let mut done = operation().await;
        for _ in 0..4 {
            if done.is_ok() {
                break;
            }
            self.sleep(1_000_000).await;
            done = operation().await;
        }
        let failed = |records: &mut Records, moment, error: &Error| {
            records.violated(moment, Subject::ALL, &error.to_string());
        };
        done.map_err(|error| self.with_records(|records, moment| failed(records, moment, &error)))
            .ok()
    }
}
