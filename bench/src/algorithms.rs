//! The algorithms beside each other: accuracy, bytes and time.

use std::{hint::black_box, time::Duration};

use anyhow::{Context, Result};
use limiter_core::{ManualClock, MemoryLimiter, Policy};
use limiter_test::{
    bounds::adversary::{Effort as Means, Means as By, attack},
    traffic::{self, Contender, QUOTA, contenders},
};

use crate::{
    bytes,
    rounds::{self, Effort, Table, keyed},
};

/// The permits and seconds that the adversary attacks: enough permits for the ratio to be near its limit.
const ATTACKED: (u64, u64) = (100, 10);

/// The keys of the measurements of time and bytes.
const KEYS: u64 = 10_000;

pub(crate) fn print(effort: &Effort) -> Result<()> {
    accuracy();
    sizes(effort)?;
    time(effort)
}

fn accuracy() {
    let traffic = traffic::all();
    let names: Vec<_> = traffic.iter().map(|traffic| traffic.name).collect();
    let (permits, seconds) = QUOTA;
    println!(
        "Sub-windows have ten slots.\n\n## Accuracy\n\nThe first two columns are for a limit `L` of {} permits: the most that \
         an adversary got in one window, and the most that a fresh key can take at once. The next three are for {permits} \
         permits in {seconds} s: the requests that were refused although fewer than {permits} had been admitted in the \
         window. The traffic is {}.\n",
        ATTACKED.0,
        names.join(", in "),
    );
    let head = [
        "algorithm",
        "most in a window",
        "at once",
        "refused below the limit: steady",
        "bursts",
        "edges",
    ];
    let mut table = Table::new(head);
    let attacked = contenders(ATTACKED.0, ATTACKED.1);
    for (contender, attacked) in contenders(permits, seconds).iter().zip(&attacked) {
        let most = attacked.policy.limits().iter().map(|limit| {
            let effort = Means { climbs: 200, seed: 1, means: By::Refund };
            attack(&attacked.policy, limit, limit.quota().window(), effort).most
        });
        let hundredths = most.max().unwrap_or(0) * 100 / u128::from(ATTACKED.0);
        let at_once = MemoryLimiter::new(attacked.policy.clone()).peek("key").burst();
        let refused = traffic.each_ref().map(|traffic| {
            let outcomes = traffic::send(&contender.policy, traffic);
            let wrong = traffic::wrongly_refused(&outcomes, permits as usize, seconds * 1_000);
            format!("{wrong} of {}", outcomes.len())
        });
        let most = format!("{}.{:02} L", hundredths / 100, hundredths % 100);
        let row = [contender.name.to_owned(), most, format!("{at_once} of {}", ATTACKED.0)];
        table.row(row.into_iter().chain(refused));
    }
    println!("{table}");
}

/// The permits of a key when its bytes are measured.
const PERMITS: u64 = 100;

fn sizes(effort: &Effort) -> Result<()> {
    println!(
        "## Bytes a key\n\nThe growth of a process's resident memory by a key that has taken 1 permit, and by one that has \
         taken {PERMITS} permits of {PERMITS} in {PERMITS} s, one a second, in a table with room for as many keys.\n"
    );
    let mut table = Table::new(["algorithm", "1 permit", &format!("{PERMITS} permits")]);
    for contender in contenders(PERMITS, PERMITS) {
        let bytes =
            |permits| bytes::measure(&format!("{permits} of {}", contender.slug), effort.keys / 10);
        table.row([contender.name.to_owned(), bytes(1)?, bytes(PERMITS)?]);
    }
    println!("{table}");
    Ok(())
}

/// Takes permits of so many keys, one a second each, and returns the resident memory.
pub(crate) fn fill(slug: &str, permits: u64, keys: usize) -> Result<u64> {
    let contender = contenders(PERMITS, PERMITS).into_iter().find(|it| it.slug == slug);
    let policy = contender.with_context(|| format!("no algorithm {slug:?}"))?.policy;
    let clock = ManualClock::new();
    let limiter = MemoryLimiter::builder(policy).capacity(keys).clock(clock.clone()).build()?;
    for _ in 0..permits {
        clock.advance(Duration::from_secs(1));
        for key in 0..keys as u64 {
            let _ = limiter.check(key);
        }
    }
    Ok((bytes::resident()?, black_box(&limiter)).0)
}

fn time(effort: &Effort) -> Result<()> {
    println!(
        "## Time of a decision\n\nns of processor time for a decision, by one thread, on integer keys: the median of {} rounds \
         ± half the interquartile range.\n",
        effort.rounds
    );
    let one = [0];
    let many: Vec<u64> = (0..KEYS).map(|number| number.wrapping_mul(7_919) % KEYS).collect();
    // So many permits that few checks are the last of a key, and so few that all are taken.
    let [plenty, few] = [200_000, 10].map(|permits| {
        let mut all = contenders(permits, 3_600);
        // The same arithmetic as GCRA, without a burst.
        all.retain(|it| it.slug != "leaky-queue");
        all
    });
    let cells = [(&one[..], true), (&one, false), (&many, true), (&many, false)];
    let mut measured = Vec::new();
    for (keys, admits) in cells {
        let of = if admits { &plenty } else { &few };
        let contenders = of.iter().map(|it| contender(it, effort, keys, admits));
        measured.push(rounds::rounds(effort.rounds, contenders.collect())?);
    }
    let head = ["algorithm", "admitted, 1 key", "refused, 1 key"];
    let head = head.map(str::to_owned).into_iter();
    let mut table =
        Table::new(head.chain(["admitted", "refused"].map(|it| format!("{it}, {KEYS} keys"))));
    for (index, contender) in plenty.iter().enumerate() {
        let figures = measured.iter().map(|cell| cell[index].figures[0].show(0));
        table.row([contender.name.to_owned()].into_iter().chain(figures));
    }
    println!("{table}");
    Ok(())
}

fn contender<'a>(
    it: &Contender,
    effort: &Effort,
    keys: &'a [u64],
    admits: bool,
) -> rounds::Contender<'a, 1> {
    let capacity = 2 * KEYS as usize;
    let build = |policy: &Policy| MemoryLimiter::builder(policy.clone()).capacity(capacity).build();
    let limiter = build(&it.policy).expect("a capacity");
    if !admits {
        keys.iter().for_each(|key| while limiter.check(*key).is_admitted() {});
    }
    let check = move |key: &u64| {
        let admitted = black_box(&limiter.check(*key)).is_admitted();
        if admits && !admitted {
            limiter.reset(*key);
        }
        admitted
    };
    keyed(it.name, effort, 1, Some(admits), keys, check)
}
