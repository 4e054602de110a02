//! Checks in memory, beside peers.

use std::{hint::black_box, num::NonZeroU32, time::Duration};

use anyhow::Result;
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter};
use limiter_core::{Builder, Cost, Demand, MemoryLimiter, Policy, decide};

use crate::rounds::{Contender, Effort, Table, keyed, rounds, timed};

/// A rate and a burst that all of the crates can express.
#[derive(Clone, Copy)]
pub(crate) struct Quota {
    permits: u32,
    window: Duration,
    burst: u32,
}

impl Quota {
    /// Admits more than a measurement can take.
    pub(crate) const ADMITS_ALL: Self =
        Self { permits: 5_000_000, window: Duration::from_secs(1), burst: 4_000_000_000 };

    /// Admits each key once.
    pub(crate) const ADMITS_ONE: Self =
        Self { permits: 1, window: Duration::from_secs(3_600), burst: 1 };

    /// A key that was charged once is in debt for 600 ms.
    const COMMON: Self = Self { permits: 100, window: Duration::from_secs(60), burst: 100 };

    fn policy(self) -> Policy {
        let quota = limiter_core::Quota::new(self.permits.into(), self.window);
        let quota = quota.and_then(|quota| quota.try_with_burst(self.burst.into()));
        Policy::gcra("bench", quota.expect("a quota that the crate serves"))
    }

    fn governor(self) -> governor::Quota {
        let quota = governor::Quota::with_period(self.window / self.permits);
        let burst = NonZeroU32::new(self.burst).expect("a burst");
        quota.expect("a period").allow_burst(burst)
    }

    fn rate_net(self) -> rate_net::Quota {
        let quota = rate_net::Quota::rate(self.permits, self.window);
        quota.expect("a quota that rate-net serves").with_burst(self.burst)
    }

    /// Returns ours with room for so many keys.
    pub(crate) fn ours(self, room: usize) -> MemoryLimiter {
        MemoryLimiter::builder(self.policy()).capacity(room).build().expect("a capacity")
    }

    /// Returns governor's, which has no setting for a number of keys: it grows.
    pub(crate) fn keyed_governor(self) -> DefaultKeyedRateLimiter<String> {
        DefaultKeyedRateLimiter::keyed(self.governor())
    }

    /// Returns rate-net's. Its documentation asks for a capacity above the real number of keys.
    pub(crate) fn keyed_rate_net(self, room: usize) -> rate_net::RateLimiter {
        let capacity = (room * 5 / 4).max(rate_net::DEFAULT_MAX_KEYS);
        let eviction = rate_net::Eviction::capacity(capacity);
        rate_net::RateLimiter::with_quota(self.rate_net()).with_eviction(eviction)
    }
}

const OUTCOMES: [(&str, Quota, bool); 2] =
    [("admitted", Quota::ADMITS_ALL, true), ("refused", Quota::ADMITS_ONE, false)];

/// Returns keys of 16 bytes in random order.
///
/// They are laid out in the order of their visits, so that a check finds its key in the cache, as a server does that has
/// just read it from a request.
pub(crate) fn keys(first: usize, number: usize) -> Vec<String> {
    let mut order: Vec<u32> = (first..first + number).map(|number| number as u32).collect();
    // Fibonacci's hash: its high bits are random enough.
    order.sort_by_key(|number| number.wrapping_mul(0x9E37_79B9).swap_bytes());
    order.into_iter().map(|number| format!("account-{number:08}")).collect()
}

/// Prints ns a check.
pub(crate) fn print(effort: &Effort) -> Result<()> {
    println!(
        "ns of processor time a check of one permit under GCRA, or the crate's default algorithm: the median of {} rounds ± half the interquartile range. With two threads, the other thread checks too. All limiters run in one process and \
         have a turn in each round; a ratio is that of two turns in the same round.\n",
        effort.rounds
    );
    one_key(effort)?;
    by_string(effort)
}

fn table<'a>(
    rows: impl IntoIterator<Item = (Vec<String>, Vec<Contender<'a, 1>>)>,
    head: &[&str],
    effort: &Effort,
) -> Result<()> {
    let mut table = None;
    for (mut row, contenders) in rows {
        let measured = rounds(effort.rounds, contenders)?;
        let names = measured.iter().map(|it| it.name.as_str());
        let head = head.iter().copied().chain(names).chain(["ratio to governor"]);
        let table = table.get_or_insert_with(|| Table::new(head));
        row.extend(measured.iter().map(|it| it.figures[0].show(1)));
        row.push(measured[0].figures[0].over(&measured[1].figures[0]).show(2));
        table.row(row);
    }
    println!("{}", table.map(|table| table.to_string()).unwrap_or_default());
    Ok(())
}

fn one_key(effort: &Effort) -> Result<()> {
    println!(
        "## One key for all\n\nOurs has room for one key; the others have a limiter without keys. leaky-bucket reads no clock \
         as long as it has permits.\n"
    );
    let rows = OUTCOMES.into_iter().flat_map(|it| [(it, 1), (it, 2)]);
    let rows = rows.map(|((outcome, quota, admits), threads)| {
        (vec![outcome.to_owned(), threads.to_string()], for_all(effort, quota, admits, threads))
    });
    table(rows, &["checks", "threads"], effort)
}

fn for_all<'a>(
    effort: &Effort,
    quota: Quota,
    admits: bool,
    threads: usize,
) -> Vec<Contender<'a, 1>> {
    let (permits, burst) = (quota.permits, u64::from(quota.burst));
    let ours = quota.ours(1);
    let governor = DefaultDirectRateLimiter::direct(quota.governor());
    let rate_net = rate_net::DirectLimiter::with_quota(quota.rate_net());
    let ratelimit = ratelimit::Ratelimiter::builder(permits.into())
        .period(quota.window)
        .max_tokens(burst)
        .initial_available(burst)
        .build()
        .expect("a quota that ratelimit serves");
    // Refills by whole tokens, so the shortest interval of at least 1 ms.
    let refill = (permits / 1_000).max(1);
    let leaky_bucket = leaky_bucket::RateLimiter::builder()
        .refill(refill as usize)
        .interval(quota.window * refill / permits)
        .max(quota.burst as usize)
        .initial(quota.burst as usize)
        .build();
    macro_rules! contender {
        ($name:literal, $admitted:expr) => {
            timed($name, effort, threads, Some(admits), move |number| {
                (0..number).filter(|_| $admitted).count()
            })
        };
    }
    vec![
        contender!("Limiter", black_box(&ours.check("all")).is_admitted()),
        contender!("governor", black_box(&governor.check()).is_ok()),
        contender!("rate-net", black_box(&rate_net.check()).is_allow()),
        contender!("ratelimit", black_box(&ratelimit.try_wait()).is_ok()),
        contender!("leaky-bucket", *black_box(&leaky_bucket.try_acquire(1))),
    ]
}

fn by_string(effort: &Effort) -> Result<()> {
    println!(
        "## Keyed by `&str`\n\nOurs has room for as many keys as there are, and for {} at least. In a flood, each check has a \
         fresh key under 100/min, and ours and rate-net are full from the start.\n",
        Builder::DEFAULT_CAPACITY
    );
    let (few, many) = (keys(0, 10_000), keys(0, effort.keys));
    let (before, fresh) = (keys(0, 2 * effort.keys), keys(2 * effort.keys, 4 * effort.keys));
    let outcomes = OUTCOMES.map(|(outcome, quota, admits)| (outcome, quota, Some(admits)));
    let of = |visits| outcomes.map(move |outcome| (outcome, &[][..], visits));
    let flood = (("fresh keys", Quota::COMMON, None), &before[..], &fresh[..]);
    let cases = of(&few[..]).into_iter().chain(of(&many)).chain([flood]);
    let rows = cases.flat_map(|it| [(it, 1), (it, 2)]).map(|(case, threads)| {
        let ((outcome, quota, admits), before, visits) = case;
        let number = visits.len().min(effort.keys).to_string();
        let contenders = three(effort, quota, before, visits, admits, threads);
        (vec![number, outcome.to_owned(), threads.to_string()], contenders)
    });
    table(rows, &["keys", "checks", "threads"], effort)
}

/// Returns ours and peers after checks of other keys, with room for half as many.
fn three<'a>(
    effort: &Effort,
    quota: Quota,
    before: &[String],
    visits: &'a [String],
    admits: Option<bool>,
    threads: usize,
) -> Vec<Contender<'a, 1>> {
    let room = if before.is_empty() { visits.len() } else { before.len() / 2 };
    let ours = quota.ours(room.max(Builder::DEFAULT_CAPACITY));
    let governor = quota.keyed_governor();
    let rate_net = quota.keyed_rate_net(room);
    let ours = move |key: &String| black_box(&ours.check(key.as_str())).is_admitted();
    let governor = move |key: &String| black_box(&governor.check_key(key)).is_ok();
    let rate_net = move |key: &String| black_box(&rate_net.check(key.as_str())).is_allow();
    for key in before {
        let _ = (ours(key), governor(key), rate_net(key));
    }
    vec![
        keyed("Limiter", effort, threads, admits, visits, ours),
        keyed("governor", effort, threads, admits, visits, governor),
        keyed("rate-net", effort, threads, admits, visits, rate_net),
    ]
}

/// Prints what a program does beside plain checks, with ours alone.
pub(crate) fn print_operations(effort: &Effort) -> Result<()> {
    println!("## Operations\n\nns of our operations on 10,000 keys, by one thread.\n");
    let visits = keys(0, 10_000);
    let limiter = &Quota::ADMITS_ALL.ours(Builder::DEFAULT_CAPACITY);
    let siblings = &[(); 2].map(|()| limiter.sibling(limiter.policy()));
    let other = Quota { burst: 3_999_999_999, ..Quota::ADMITS_ALL }.policy();
    let handle = &limiter.with_policy(&other)?;
    fn demand<'a>(limiter: &'a MemoryLimiter, key: &'a str) -> Demand<'a> {
        Demand::new(limiter, key, Cost::ONE)
    }
    let decide_on = |demands: &[Demand<'_>]| {
        let decided = decide(demands).take_ready().expect("it is in memory");
        black_box(decided.expect("a valid list")).is_admitted()
    };
    macro_rules! operation {
        ($name:literal, |$key:ident| $admitted:expr) => {
            keyed($name, effort, 1, Some(true), &visits, move |$key: &String| {
                let $key = $key.as_str();
                $admitted
            })
        };
    }
    let contenders = vec![
        operation!("a check", |key| black_box(&limiter.check(key)).is_admitted()),
        operation!("a check whose figures are read", |key| {
            let decision = black_box(limiter.check(key));
            let _ = black_box((decision.remaining(), decision.reset_after()));
            decision.is_admitted()
        }),
        operation!("a check through another policy's handle", |key| {
            black_box(&handle.check(key)).is_admitted()
        }),
        operation!("a reservation", |key| {
            black_box(&limiter.reserve(key, Cost::ONE, Duration::ZERO)).is_admitted()
        }),
        operation!("one demand by `decide`", |key| decide_on(&[demand(limiter, key)])),
        operation!("three demands by `decide`", |key| {
            let [second, third] = siblings;
            decide_on(&[limiter, second, third].map(|limiter| demand(limiter, key)))
        }),
        keyed("`with_policy`, a policy seen before", effort, 1, Some(true), &visits, |_| {
            black_box(&limiter.with_policy(&other)).is_ok()
        }),
    ];
    let measured = rounds(effort.rounds, contenders)?;
    let mut table = Table::new(["operation", "ns", "ratio to a check"]);
    for it in &measured {
        let ratio = it.figures[0].over(&measured[0].figures[0]).show(2);
        table.row([it.name.clone(), it.figures[0].show(1), ratio]);
    }
    println!("{table}");
    Ok(())
}
