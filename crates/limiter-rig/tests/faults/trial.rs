//! Traffic through a fault, by a limiter that returns errors and one with a fallback, and what must hold of it.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Decision, Error, ErrorKind, Fallback, Limiter, Policy, Quota, Source};
use limiter_redis::{Connection, RedisLimiter, connect};
use limiter_rig::server::wait_until;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::sleep,
};

const DEADLINE: Duration = Duration::from_millis(50);
/// Each limiter has recovered once the store has decided so many checks after the fault.
const WELL_AFTER: u64 = 100;

/// How many permits each key has. Nothing is refilled: a permit takes more than a month.
const LIMIT: u64 = 10;
const YEAR: Duration = Duration::from_secs(366 * 86_400);

const TASKS: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);
/// Of so many attempts one is on the key that is used up.
const CROWDED: usize = 4;
const CROWD: &str = "everyone";

/// What the limiters do without the store, by their names: return the error, or decide by a share.
const ERROR: &str = "error";
const SHARE: &str = "share";

/// What the server has forgotten by the end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Kept,
    Lost,
}

/// A fault under way.
///
/// Each attempt has a key of its own, so that the server shows of every single one whether, and how
/// often, it was charged; but some are on a key that is used up, whose limit has to hold.
pub(crate) struct Trial {
    fault: &'static str,
    runtime: Runtime,
    connection: Connection,
    limiters: Vec<(&'static str, RedisLimiter)>,
    begun: Instant,
    over: Arc<AtomicBool>,
    attempts: Vec<Vec<JoinHandle<Vec<Attempt>>>>,
}

struct Attempt {
    /// Its own key, unless it was on the crowded one.
    key: Option<String>,
    ended: Instant,
    result: Result<Decision, Error>,
}

impl Trial {
    /// Starts the traffic, and returns once all is well.
    pub(crate) fn begin(fault: &'static str, url: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let connection = runtime.block_on(connect(url)).unwrap();
        let limiters = [ERROR, SHARE].map(|name| {
            (name, builder(name).deadline(DEADLINE).build_on(connection.clone()).unwrap())
        });
        let attempts = limiters.iter().map(|(name, limiter)| {
            let limiter: Arc<dyn Limiter> = match *name {
                SHARE => {
                    let processes = NonZeroU32::new(2).unwrap();
                    Arc::new(Fallback::new(limiter.clone()).sharing(processes).unwrap())
                }
                _ => Arc::new(limiter.clone()),
            };
            let count = Arc::new(AtomicUsize::new(0));
            let tasks = (0..TASKS).map(|_| {
                runtime.spawn(traffic(Arc::clone(&limiter), Arc::clone(&count), Arc::clone(&over)))
            });
            tasks.collect()
        });
        let attempts = attempts.collect();
        let (limiters, begun) = (limiters.to_vec(), Instant::now());
        let mut trial = Self { fault, runtime, connection, limiters, begun, over, attempts };
        trial.wait_until("the traffic flows", |limiters| {
            limiters.iter().all(|(_, limiter)| limiter.counters().refused > 0)
        });
        trial.begun = Instant::now();
        trial
    }

    /// Returns where the server has what all tasks of a limiter want.
    pub(crate) fn crowded_keys(&self) -> impl Iterator<Item = String> {
        self.limiters.iter().map(|(name, _)| format!("{name}:{{s{CROWD}}}:test"))
    }

    /// Waits until each limiter has done so often without the store.
    pub(crate) fn lasts(&self, failures: u64) {
        let failed = |limiter: &RedisLimiter| {
            let counters = limiter.counters();
            let sent = counters.unavailable + counters.undetermined + counters.unexpected;
            sent + counters.short_circuited
        };
        let before: Vec<_> = self.limiters.iter().map(|(_, limiter)| failed(limiter)).collect();
        self.wait_until("a fault", |limiters| {
            let mut limiters = limiters.iter().zip(&before);
            limiters.all(|((_, limiter), before)| failed(limiter) >= before + failures)
        });
    }

    /// Waits until the client has given its connection up, and goes on without one.
    pub(crate) fn lasts_until_disconnected(&self) {
        self.wait_until("disconnected", |_| !self.connection.is_connected());
        self.lasts(super::LONG);
    }

    /// Waits until something holds of the limiters.
    fn wait_until(&self, what: &str, holds: impl Fn(&[(&str, RedisLimiter)]) -> bool) {
        wait_until(&format!("{}: {what}", self.fault), || holds(&self.limiters));
    }

    /// Ends the traffic when the fault is over and has been survived, and checks, by the server at
    /// `url`, that all results are as expected.
    pub(crate) fn survived(self, url: &str, state: State) -> Vec<Row> {
        let decided = |limiter: &RedisLimiter| {
            let counters = limiter.counters();
            counters.admitted + counters.refused
        };
        let before: Vec<_> = self.limiters.iter().map(|(_, limiter)| decided(limiter)).collect();
        self.wait_until("well after the fault", |limiters| {
            let mut limiters = limiters.iter().zip(&before);
            limiters.all(|((_, limiter), before)| decided(limiter) >= before + WELL_AFTER)
        });

        self.over.store(true, Ordering::Relaxed);
        let Self { fault, runtime, limiters, begun, .. } = self;
        let (mut rows, mut faulty) = (Vec::new(), Vec::new());
        for ((without_store, limiter), tasks) in limiters.iter().zip(self.attempts) {
            let attempts: Vec<Attempt> = runtime
                .block_on(join_all(tasks))
                .into_iter()
                .flat_map(|attempts| attempts.unwrap())
                .collect();
            let charges = runtime.block_on(charges(url, without_store, &attempts));
            let findings =
                Findings { state, limiter, begun, attempts: &attempts, charges: &charges };
            let row = findings.row(without_store);
            let faults = findings.faults(&row);
            faulty.extend(faults.map(|what| format!("{without_store}: {what}")));
            rows.push(row);
        }
        println!("{fault}: {rows:?}");
        assert!(faulty.is_empty(), "{fault}: {faulty:#?}");
        rows
    }
}

/// Returns the builder of a limiter with a prefix of its own.
fn builder(prefix: &str) -> limiter_redis::Builder {
    let policy = Policy::gcra("test", Quota::new(LIMIT, YEAR).unwrap());
    RedisLimiter::builder(policy).prefix(prefix)
}

async fn traffic(
    limiter: Arc<dyn Limiter>,
    count: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let key = (!number.is_multiple_of(CROWDED)).then(|| number.to_string());
        let result = limiter.check(&key.as_deref().unwrap_or(CROWD).into()).await;
        attempts.push(Attempt { key, ended: Instant::now(), result });
        sleep(PAUSE).await;
    }
    attempts
}

/// Returns how many permits were taken of the key of each attempt that had one of its own.
async fn charges(url: &str, prefix: &str, attempts: &[Attempt]) -> Vec<u64> {
    let limiter = builder(prefix).deadline(Duration::from_secs(10)).connect(url).await.unwrap();
    let mut charges = Vec::new();
    // Fewer at a time than may be queued.
    for some in attempts.chunks(500) {
        let keys = some.iter().filter_map(|attempt| attempt.key.as_deref());
        let usages = join_all(keys.map(|key| limiter.peek(key))).await;
        charges.extend(usages.into_iter().map(|usage| LIMIT - usage.unwrap().remaining()));
    }
    charges
}

/// What a limiter did in a fault.
#[derive(Debug)]
pub(crate) struct Row {
    /// What follows without the store: the error, or a decision by a share.
    follows: &'static str,
    /// How many attempts were decided neither by the store nor by its earlier refusals.
    without_store: usize,
    pub(crate) short_circuited: u64,
    undetermined: u64,
    double_charges: u64,
}

/// What is known of one limiter when all is over.
struct Findings<'a> {
    state: State,
    limiter: &'a RedisLimiter,
    /// When the fault began.
    begun: Instant,
    attempts: &'a [Attempt],
    charges: &'a [u64],
}

impl Findings<'_> {
    fn row(&self, follows: &'static str) -> Row {
        let counters = self.limiter.counters();
        Row {
            follows,
            without_store: self.attempts.iter().filter(|attempt| !attempt.is_by_store()).count(),
            short_circuited: counters.short_circuited,
            undetermined: counters.undetermined,
            double_charges: self.charges.iter().map(|charge| charge.saturating_sub(1)).sum(),
        }
    }

    /// Returns what must not be.
    fn faults(&self, row: &Row) -> impl Iterator<Item = String> {
        let own = || self.attempts.iter().filter(|attempt| attempt.key.is_some()).zip(self.charges);
        let charged_unseen: u64 =
            own().filter(|(attempt, _)| !attempt.is_by_store()).map(|(_, charge)| charge).sum();
        let lost = own().filter(|(attempt, charge)| attempt.is_by_store() && **charge == 0).count();
        let denied = own().filter(|(attempt, charge)| attempt.is_unavailable() && **charge > 0);
        let crowded = self.attempts.iter().filter(|attempt| attempt.key.is_none());
        let crowd = |source| {
            let by = crowded.clone().filter(|attempt| attempt.is_by(source));
            by.filter(|attempt| attempt.is_admitted()).count() as u64
        };
        let allowed = if self.state == State::Kept { LIMIT } else { 2 * LIMIT };
        let strangers = self.attempts.iter().filter(|attempt| !self.is_as_chosen(attempt, row));
        [
            (row.double_charges > 0, format!("{} double charges", row.double_charges)),
            (
                charged_unseen > row.undetermined,
                format!(
                    "{charged_unseen} charges without the store's word, of which at most {} \
                         may be",
                    row.undetermined
                ),
            ),
            (
                lost > 0 && self.state == State::Kept,
                format!("{lost} decisions of the store without a charge"),
            ),
            (denied.count() > 0, "charges by calls that are said not to have charged".to_owned()),
            (
                crowd(Source::State) > allowed,
                format!("{} admitted of a key with {allowed}", crowd(Source::State)),
            ),
            (row.without_store == 0, "no fault showed".to_owned()),
            (strangers.count() > 0, "neither by the store nor as was chosen".to_owned()),
        ]
        .into_iter()
        .filter_map(|(is_wrong, what)| is_wrong.then_some(what))
    }

    /// Whether the store has decided, or what follows without it.
    fn is_as_chosen(&self, attempt: &Attempt, row: &Row) -> bool {
        match &attempt.result {
            Ok(decision) => match (decision.source(), row.follows) {
                // Each key has room but the crowded one.
                (Source::State, _) => attempt.key.is_none() || decision.is_admitted(),
                (Source::Cache, _) => attempt.key.is_none() && !decision.is_admitted(),
                // The crowded one is as used up in memory, by what the server had admitted before.
                (Source::Local, SHARE) => {
                    decision.is_admitted() == attempt.key.is_some() || attempt.ended < self.begun
                }
                _ => false,
            },
            Err(error) => {
                let is_foreign = error.kind() == ErrorKind::Unexpected;
                row.follows == ERROR && (!is_foreign || attempt.key.is_none())
            }
        }
    }
}

impl Attempt {
    fn is_by_store(&self) -> bool {
        self.is_by(Source::State) || self.is_by(Source::Cache)
    }

    fn is_by(&self, source: Source) -> bool {
        self.result.as_ref().is_ok_and(|decision| decision.source() == source)
    }

    fn is_admitted(&self) -> bool {
        self.result.as_ref().is_ok_and(Decision::is_admitted)
    }

    fn is_unavailable(&self) -> bool {
        self.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable)
    }
}
