//! How long a decision takes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limiter_core::{Algorithm, MemoryLimiter};
use limiter_test::traffic::{Contender, contenders};

/// So many permits that a batch takes only few of them, even of one slot's.
const PLENTY: u64 = 200_000;
/// So few permits that all are taken.
const FEW: u64 = 10;
const HOUR: u64 = 3_600;

const KEYS: u64 = 10_000;
/// Twice the keys, so that almost all have a place of their own.
const CAPACITY: usize = 20_000;
/// Decisions between two readings of the clock.
const BATCH: u32 = 10_000;
const BATCHES: u32 = 2;
const ROUNDS: usize = 99;

/// A limiter with one key or many that admits all requests or refuses all.
struct Race {
    limiter: MemoryLimiter,
    admits: bool,
    keys: u64,
    /// Nanoseconds for a decision, by round.
    results: Vec<f64>,
}

/// Prints the time that each algorithm takes for a decision.
pub(super) fn table() -> Result<()> {
    let processors = std::thread::available_parallelism()?;
    println!(
        "## Time of a decision\n\nNanoseconds for a decision, by one thread on a machine with {processors} processors: \
         the median of {ROUNDS} rounds of {} decisions, and the range of the middle half of the \
         rounds. Keys are integers. In each round, {BATCH} decisions before these fill the cache. \
         With {KEYS} keys, a log grows to {} entries.\n",
        BATCH * BATCHES,
        ROUNDS * (1 + BATCHES as usize),
    );
    println!(
        "| algorithm | admitted, 1 key | refused, 1 key | admitted, {KEYS} keys | refused, {KEYS} keys |"
    );
    println!("|---|---|---|---|---|");
    let mut racers = Vec::new();
    for (plenty, few) in contenders(PLENTY, HOUR).iter().zip(&contenders(FEW, HOUR)) {
        // The same arithmetic as GCRA, without a burst.
        if !plenty
            .policy
            .limits()
            .iter()
            .any(|limit| matches!(limit.algorithm(), Algorithm::LeakyQueue { .. }))
        {
            racers.push((plenty.name, races(plenty, few)?));
        }
    }
    for _ in 0..ROUNDS {
        // Interleaved, so that a disturbance of the machine affects all of them.
        for (_, races) in &mut racers {
            for race in races {
                race.run()?;
            }
        }
    }
    for (name, races) in racers {
        let [one, one_refused, many, many_refused] = races.map(Race::summary);
        println!("| {name} | {one} | {one_refused} | {many} | {many_refused} |");
    }
    println!();
    Ok(())
}

fn races(plenty: &Contender, few: &Contender) -> Result<[Race; 4]> {
    let race = |keys, contender: &Contender, admits: bool| -> Result<Race> {
        let limiter =
            MemoryLimiter::builder(contender.policy.clone()).capacity(CAPACITY).build()?;
        if !admits {
            for key in 0..keys {
                while limiter.check(key).is_admitted() {}
            }
        }
        Ok(Race { limiter, admits, keys, results: Vec::new() })
    };
    Ok([
        race(1, plenty, true)?,
        race(1, few, false)?,
        race(KEYS, plenty, true)?,
        race(KEYS, few, false)?,
    ])
}

impl Race {
    fn run(&mut self) -> Result<()> {
        let mut time = Duration::ZERO;
        for batch in 0..=BATCHES {
            let begin = Instant::now();
            let mut admitted = 0;
            for number in 0..u64::from(BATCH) {
                // Not in the order of the keys' places.
                let key = number.wrapping_mul(7_919) % self.keys;
                let decision = self.limiter.check(key);
                admitted += u32::from(decision.is_admitted());
            }
            // The first one fills the cache again, because the other limiters have evicted this one.
            if batch > 0 {
                time += begin.elapsed();
            }
            // About one key in a thousand shares a place, and may be refused.
            let expected = if self.admits { BATCH } else { 0 };
            ensure!(admitted.abs_diff(expected) < BATCH / 100, "{admitted} of {BATCH} admitted");
            if self.keys == 1 && self.admits {
                self.limiter.reset(0_u64);
            }
        }
        self.results.push(time.as_secs_f64() * 1e9 / f64::from(BATCH * BATCHES));
        Ok(())
    }

    fn summary(mut self) -> String {
        self.results.sort_by(f64::total_cmp);
        let at = |index: usize| self.results.get(index).copied().unwrap_or_default();
        let (median, low, high) = (at(ROUNDS / 2), at(ROUNDS / 4), at(ROUNDS * 3 / 4));
        format!("{median:.0} ({low:.0} to {high:.0})")
    }
}
