//! How long a decision takes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limiter_core::{Cost, Kind, MemoryLimiter};
use limiter_test::traffic::{Contender, contenders};

/// Many permits, of which a batch takes few: even those of one slot are more.
const PLENTY: u64 = 200_000;
/// Few permits, all of which are taken.
const FEW: u64 = 10;
const HOUR: u64 = 3_600;

const KEYS: u64 = 10_000;
/// Decisions at a stretch.
const BATCH: u32 = 10_000;
const BATCHES: u32 = 2;
const ROUNDS: usize = 99;

/// What is measured: a limiter with one key or many that admits or refuses all.
struct Race {
    limiter: MemoryLimiter,
    admits: bool,
    keys: u64,
    /// Nanoseconds for a decision, by round.
    results: Vec<f64>,
}

/// Prints the time of a decision by each algorithm.
pub(super) fn table() -> Result<()> {
    let processors = std::thread::available_parallelism()?;
    println!(
        "**Time** of a decision in nanoseconds, on a machine of {processors} processors and by one \
         thread: the median of {ROUNDS} rounds of {} decisions, and the \
         range of the middle half of them.\n",
        BATCH * BATCHES
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
            .any(|limit| matches!(limit.kind(), Kind::LeakyQueue { .. }))
        {
            racers.push((plenty.name, races(plenty, few)?));
        }
    }
    for _ in 0..ROUNDS {
        // By turns: what disturbs the machine disturbs all.
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
        let limiter = MemoryLimiter::new(contender.policy.clone())?.with_capacity(2 * 10_000)?;
        if !admits {
            for key in 0..keys {
                while limiter.try_acquire(key, Cost::ONE).is_admitted() {}
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
        for _ in 0..BATCHES {
            let begin = Instant::now();
            let mut admitted = 0;
            for number in 0..u64::from(BATCH) {
                // In an order that is not that of the places.
                let key = number.wrapping_mul(7_919) % self.keys;
                let decision = self.limiter.try_acquire(key, Cost::ONE);
                admitted += u32::from(decision.is_admitted());
            }
            time += begin.elapsed();
            // The few keys that share places may be refused.
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
