//! The scripts that limiters send, called by limiters with random histories.

use std::{convert::Infallible, pin::pin, time::Duration};

use futures::future::{Either, select};
use limiter_core::{
    Algorithm, Cost, Demand, Error, InFlightPermit, ManualClock, Policy, Quota, Receipt,
    Reservation, Slots, decide,
};
use limiter_redis::{RedisInFlight, RedisLimiter, scripts};
use tokio::{runtime::Builder, task};

use crate::{random::Random, replay::Client};

/// How many histories there are, and how many calls of limiters each has.
const HISTORIES: u64 = 120;
const OPERATIONS: u64 = 60;

const KEYS: [&str; 2] = ["alice", "bob"];

#[test]
fn scripts_do_the_same_in_random_histories() {
    let clock = ManualClock::new();
    let runtime = Builder::new_current_thread().build().unwrap();
    let client = Client::start(clock.clone(), runtime.handle().clone());
    for number in 0..HISTORIES {
        let mut random = Random(number);
        let mut history = History::new(&client, &clock, &mut random, number);
        for _ in 0..OPERATIONS {
            runtime.block_on(history.step(&mut random));
        }
        client.both().check();
    }
    let calls = client.both().calls.clone();
    eprintln!("{calls:?}");
    for (name, _) in scripts::all() {
        let (calls, failures) = calls.get(name).copied().unwrap_or_default();
        assert!(calls >= 60 && failures < calls / 4, "{name}: {calls} calls, {failures} errors");
    }
}

/// Limiters with the same states, and what they have admitted.
struct History {
    client: Client,
    /// One limiter, under several policies.
    limiters: Vec<RedisLimiter<Client>>,
    other: RedisLimiter<Client>,
    in_flight: RedisInFlight<Client>,
    receipts: Vec<Receipt>,
    permits: Vec<InFlightPermit>,
}

impl History {
    fn new(client: &Client, clock: &ManualClock, random: &mut Random, number: u64) -> Self {
        let policies = policies(random);
        let prefix = format!("history{number}");
        let limiter = RedisLimiter::builder(policies[0].clone())
            .prefix(&prefix)
            .clock(clock.clone())
            .seed(number)
            .deadline(Duration::from_secs(10))
            // Errors don't keep calls from being made.
            .denial_cache(0)
            .lease(!random.once_in(4))
            .build_on(client.clone())
            .unwrap();
        let other = limiter.sibling(&Policy::gcra("other", Quota::per_second(5))).unwrap();
        let handle = |policy: &Policy| limiter.with_policy(policy).unwrap();
        let in_flight =
            RedisInFlight::builder("in-flight", 1 + u32::try_from(random.below(4)).unwrap())
                .prefix(&prefix)
                .clock(clock.clone())
                .seed(number)
                .build_on(client.clone())
                .unwrap();
        Self {
            client: client.clone(),
            limiters: policies.iter().map(handle).collect(),
            other,
            in_flight,
            receipts: Vec::new(),
            permits: Vec::new(),
        }
    }

    /// Makes a random call, and lets the time pass that it waits for.
    async fn step(&mut self, random: &mut Random) {
        let client = self.client.clone();
        let time = pin!(async {
            loop {
                for _ in 0..100 {
                    task::yield_now().await;
                }
                client.advance(Duration::from_millis(10));
            }
        });
        let step = pin!(self.make_call(random));
        let _: Either<_, (Infallible, _)> = select(step, time).await;
    }

    /// Makes a random call. What limiters answer is not checked here, and errors are answers.
    async fn make_call(&mut self, random: &mut Random) {
        let limiter = random.choose(&self.limiters).clone();
        let key = *random.choose(&KEYS);
        let most = *random.choose(&[3, 3, 3, 12]);
        let cost = Cost::new(1 + random.below(most)).unwrap();
        match random.below(20) {
            0 => drop(limiter.peek(key).await),
            1 if random.once_in(2) => drop(limiter.reset(key).await),
            2 | 3 => {
                let within = Duration::from_millis(random.below(3_000));
                self.keep(limiter.reserve(key, cost, within).await);
            }
            4 => self.keep(limiter.take_up_to(key, cost).await),
            5 => self.keep(limiter.charge(key, cost).await),
            6 | 7 if !self.receipts.is_empty() => {
                let receipt = self.receipts.swap_remove(random.index(self.receipts.len()));
                drop(limiter.refund(receipt).await);
            }
            8 | 9 => {
                let demands = [
                    Demand::new(&limiter, key, cost),
                    Demand::new(&self.other, key, Cost::ONE),
                    Demand::new(&limiter, "carol", cost),
                ];
                if let Ok(decision) = decide(&demands[..2 + random.index(2)]).await {
                    self.receipts.extend(decision.into_receipts().map(|(_, receipt)| receipt));
                }
            }
            // At the same moment, so that they are one batch.
            10 => {
                let checks = KEYS.map(|key| task::spawn(limiter.check_n(key, cost)));
                for check in checks {
                    drop(check.await);
                }
            }
            11 | 12 => {
                if let Ok(entry) = self.in_flight.enter(key).await {
                    self.permits.extend(entry.into_permit());
                }
            }
            13 if !self.permits.is_empty() => {
                drop(self.permits.swap_remove(random.index(self.permits.len())));
            }
            14 => drop(self.in_flight.peek(key).await),
            // So many that permits are leased.
            16 => {
                for _ in 0..10 {
                    drop(limiter.check(key).await);
                }
            }
            _ => drop(limiter.check_n(key, cost).await),
        }
        let micros = match random.below(8) {
            0..=2 => 0,
            3 => random.below(1_000),
            4..=6 => random.below(300_000),
            _ => random.below(12_000_000),
        };
        self.client.advance(Duration::from_micros(micros));
        // So that calls are made which nobody waits for.
        for _ in 0..20 {
            task::yield_now().await;
        }
    }

    fn keep(&mut self, reservation: Result<Reservation, Error>) {
        self.receipts.extend(reservation.ok().and_then(Reservation::into_receipt));
    }
}

/// Returns one to three policies of the same algorithms, with other quotas.
fn policies(random: &mut Random) -> Vec<Policy> {
    let limits = if random.once_in(3) { 1 + random.index(3) } else { 1 };
    let all: Vec<_> = Algorithm::one_of_each()
        .chain([Algorithm::SubWindows(Slots::loose(3)), Algorithm::Gcra])
        .collect();
    loop {
        let algorithms: Vec<_> = (0..limits).map(|_| *random.choose(&all)).collect();
        let count = 1 + random.index(3);
        let policies: Result<Vec<_>, _> = (0..count).map(|_| policy(&algorithms, random)).collect();
        if let Ok(policies) = policies {
            return policies;
        }
    }
}

fn policy(algorithms: &[Algorithm], random: &mut Random) -> Result<Policy, Error> {
    // Permits are leased where there are many.
    let scales = &[1, 1_000];
    let mut limits = Vec::new();
    for (number, algorithm) in algorithms.iter().enumerate() {
        let window = [50, 1_000, 7_000, 10_000, 60_000][random.index(5)];
        let permits = (1 + random.below(12)) * random.choose(scales);
        let quota = Quota::new(permits, Duration::from_millis(window))?;
        limits.push(Policy::new(&format!("limit{number}"), *algorithm, quota)?);
    }
    if limits.len() == 1 { Ok(limits.remove(0)) } else { Policy::all_of("several", limits) }
}
