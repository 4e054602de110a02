//! A load as it is played: each check, and what became of it.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{Decision, Error};
use limiter_redis::RedisLimiter;

use super::load::{Arrivals, Load};
use crate::{
    auditor::Auditor,
    clock::ProcessClock,
    executor::Executor,
    fault::Faults,
    network::{Network, SimClient},
    random::Random,
    records::Records,
    sync::lock,
    vocabulary::{Micros, ProcessId},
};

/// What became of the checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    pub(super) asked: u64,
    /// By process.
    pub(super) admitted: Vec<u64>,
    refused: u64,
    pub(super) failed: u64,
    pub(super) calls: u64,
    /// How many permits were charged in the end, of those that don't recover in the time of the load.
    charged: u64,
}

/// A process that is played.
struct Player {
    number: usize,
    process: ProcessId,
    clock: ProcessClock,
    limiter: RedisLimiter<SimClient>,
    executor: Executor,
    played: Arc<Mutex<Played>>,
    /// The key that is asked next, of all processes.
    turn: Arc<AtomicU64>,
    keys: u64,
}

/// Plays a load.
pub(super) fn play(load: &Load, seed: u64, with_leases: bool) -> Result<Played, Error> {
    let mut random = Random::new(seed).fork();
    let executor = Executor::new();
    // They never begin.
    let faults = Faults::new(random.fork(), &[]);
    let records = Records::new(Vec::new(), Auditor::default());
    let network = Network::new(&executor, (random.fork(), load.trips), faults, records, None);
    let played =
        Arc::new(Mutex::new(Played { admitted: vec![0; load.leases.len()], ..Played::default() }));
    let turn = Arc::new(AtomicU64::new(0));
    let mut players = Vec::new();
    for (number, leases) in load.leases.iter().enumerate() {
        let process = ProcessId(u32::try_from(number).unwrap_or(u32::MAX));
        executor.start(process);
        let clock = ProcessClock::new(&executor, random.below(1 << 60), random.around_zero(100));
        let client = SimClient::new(&network, process, &clock);
        let limiter = RedisLimiter::builder(load.policy.clone())
            .deadline(Duration::from_micros(load.trips.deadline))
            .lease(*leases && with_leases)
            .clock(clock.clone())
            .seed(random.next())
            .build_on(client)?;
        let player = Arc::new(Player {
            number,
            process,
            clock,
            limiter,
            executor: executor.clone(),
            played: Arc::clone(&played),
            turn: Arc::clone(&turn),
            keys: load.keys,
        });
        player.start(load, &mut random);
        players.push(player);
    }
    executor.run_until(load.lasts + 1_000_000);
    lock(&played).calls = network.calls();
    for player in &players {
        let limiter = player.limiter.clone();
        executor.spawn(player.process, async move {
            drop(limiter.drain(Duration::from_secs(1)).await);
        });
    }
    executor.run_until(executor.now() + 2_000_000);
    if let Some(player) = players.first() {
        player.count_charges();
    }
    executor.run_until(executor.now() + 1_000_000);
    executor.clear();
    drop(players);
    let played = lock(&played).clone();
    Ok(played)
}

impl Player {
    /// Starts the tasks that ask.
    fn start(self: &Arc<Self>, load: &Load, random: &mut Random) {
        let lasts = load.lasts;
        let (percent, of_a_second) = match load.arrivals {
            Arrivals::Even(percent) => (percent, 1_000_000),
            Arrivals::Bursts(percent) => (percent, 200_000),
            Arrivals::Tasks(tasks) => {
                for _ in 0..tasks {
                    let (player, mut random) = (Arc::clone(self), random.fork());
                    self.executor.spawn(self.process, async move {
                        while player.executor.now() < lasts {
                            let longest = if player.ask().await { 1_000 } else { 10_000 };
                            let pause = random.below(longest);
                            player.clock.sleep(Duration::from_micros(pause)).await;
                        }
                    });
                }
                return;
            }
        };
        let number = load.per_second(percent);
        let (player, mut random) = (Arc::clone(self), random.fork());
        self.executor.spawn(self.process, async move {
            while player.executor.now() < lasts {
                let mut times: Vec<Micros> =
                    (0..number).map(|_| random.below(of_a_second)).collect();
                times.sort_unstable();
                let second = player.executor.now();
                for time in times {
                    player.sleep_until(second + time).await;
                    let asking = Arc::clone(&player);
                    player.executor.spawn(player.process, async move {
                        asking.ask().await;
                    });
                }
                player.sleep_until(second + 1_000_000).await;
            }
        });
    }

    async fn sleep_until(&self, time: Micros) {
        let left = time.saturating_sub(self.executor.now());
        self.clock.sleep(Duration::from_micros(left)).await;
    }

    /// Checks the next key, and returns whether it was admitted.
    async fn ask(&self) -> bool {
        let key = self.turn.fetch_add(1, Relaxed) % self.keys;
        lock(&self.played).asked += 1;
        let decided = self.limiter.check(key.to_string()).await;
        let mut played = lock(&self.played);
        let is_admitted = decided.as_ref().is_ok_and(Decision::is_admitted);
        match decided {
            Ok(_) if is_admitted => {
                if let Some(admitted) = played.admitted.get_mut(self.number) {
                    *admitted += 1;
                }
            }
            Ok(_) => played.refused += 1,
            Err(_) => played.failed += 1,
        }
        is_admitted
    }

    /// Adds up what is charged of each key.
    fn count_charges(self: &Arc<Self>) {
        for key in 0..self.keys {
            let player = Arc::clone(self);
            self.executor.spawn(self.process, async move {
                if let Ok(usage) = player.limiter.peek(key.to_string()).await {
                    lock(&player.played).charged += usage.burst() - usage.remaining();
                }
            });
        }
    }
}

impl Played {
    pub(super) fn admitted(&self) -> u64 {
        self.admitted.iter().sum()
    }

    pub(super) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns how many permits are charged that nobody got.
    pub(super) fn lost(&self) -> u64 {
        self.charged.saturating_sub(self.admitted())
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, admitted, refused, failed, calls, charged } = self;
        write!(
            f,
            "{asked} asked, {} admitted {admitted:?}, {refused} refused, {failed} failed, {calls} calls, {charged} charged",
            self.admitted()
        )
    }
}
