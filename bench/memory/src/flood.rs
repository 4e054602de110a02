//! A flood of fresh keys, while some debtors are watched.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Result, ensure};
use limiter_core::{Clock, MemoryLimiter, Policy, Quota, Source, SystemClock, Timestamp};

use crate::{
    host, logs,
    report::{self, thousands},
};

/// The number of fresh keys unless another is asked for.
pub(crate) const KEYS: u64 = 200_000_000;

/// For how many keys the limiter has room.
const ROOM: usize = 1_000_000;

/// 100/min with a burst of 5: a key that was charged once is in debt for 600 ms.
const QUOTA: Quota = Quota::per_minute(100).with_burst(5);

const DEBTORS: usize = 1_000;

/// How many fresh keys come between two visits to all debtors.
const BETWEEN_VISITS: u64 = 200_000;

/// The most that the resident memory may change, as a part of it.
const MOST_GROWTH: f64 = 0.08;

/// The most nanoseconds that 999 of 1,000 checks may take.
const MOST_NANOS: u64 = 2_000;

/// Runs the floods, prints what they did, and fails if a bound is missed.
pub(crate) fn run(keys: u64) -> Result<()> {
    println!(
        "Printed by `cargo xtask bench flood --keys {keys}`.\n\n{}",
        report::host(&crate::RELEASE)
    );
    let gcra = gcra(keys)?;
    logs::run()?;
    gcra.verify()
}

struct Report {
    memory: Vec<u64>,
    times: Times,
    debtors: Vec<Debtor>,
}

fn gcra(keys: u64) -> Result<Report> {
    let clock = SystemClock::new();
    let policy = Policy::gcra("flood", QUOTA);
    let limiter = MemoryLimiter::builder(policy).capacity(ROOM).build()?;
    let mut debtors: Vec<Debtor> = (0..DEBTORS).map(Debtor::new).collect();
    debtors.iter_mut().for_each(|debtor| debtor.visit(&limiter, &clock));
    let (mut times, mut memory) = (Times::new(), Vec::new());
    let mut text = String::new();
    for number in 0..keys {
        text.clear();
        write!(text, "fresh-{number}")?;
        let start = clock.now();
        let _ = std::hint::black_box(limiter.check(&text));
        times.add(clock.now().saturating_since(start));
        if number % BETWEEN_VISITS == BETWEEN_VISITS - 1 {
            debtors.iter_mut().for_each(|debtor| debtor.visit(&limiter, &clock));
            memory.push(host::resident()?);
            if memory.len().is_multiple_of(50) {
                eprintln!("{} keys, {} bytes resident", number + 1, memory[memory.len() - 1]);
            }
        }
    }
    let report = Report { memory, times, debtors };
    report.print(keys);
    Ok(report)
}

impl Report {
    fn growth(&self) -> f64 {
        let first = self.memory.first().copied().unwrap_or(0) as f64;
        let most = self.memory.iter().copied().max().unwrap_or(0) as f64;
        most / first - 1.0
    }

    fn sum(&self, part: fn(&Debtor) -> u64) -> u64 {
        self.debtors.iter().map(part).sum()
    }

    fn print(&self, keys: u64) {
        let first = self.memory.first().copied().unwrap_or(0) >> 20;
        let times = &self.times;
        println!(
            "{} fresh keys through a limiter for {}, 100/min with a burst of 5:\n\n\
             - resident memory: {first} MB after the first {}, at most {:.2} % more later\n\
             - a check, with two readings of the clock: median {} ns, 99 % {} ns, 99.9 % {} ns, \
             99.99 % {} ns\n\
             - {} debtors: {} admissions, of which {} were early; {} refusals, of which {} were \
             after the end of the wait, and {} because the table was full\n",
            thousands(usize::try_from(keys).unwrap_or(usize::MAX)),
            thousands(ROOM),
            thousands(BETWEEN_VISITS as usize),
            self.growth() * 100.0,
            times.quantile(0.5),
            times.quantile(0.99),
            times.quantile(0.999),
            times.quantile(0.9999),
            thousands(self.debtors.len()),
            self.sum(|debtor| debtor.admitted),
            self.sum(|debtor| debtor.early),
            self.sum(|debtor| debtor.refused),
            self.sum(|debtor| debtor.late),
            self.sum(|debtor| debtor.full),
        );
    }

    fn verify(&self) -> Result<()> {
        let early = self.sum(|debtor| debtor.early);
        ensure!(early == 0, "{early} admissions of debtors were early");
        let growth = self.growth();
        ensure!(growth <= MOST_GROWTH, "resident memory grew by {:.1} %", growth * 100.0);
        let nanos = self.times.quantile(0.999);
        ensure!(nanos <= MOST_NANOS, "99.9 % of the checks took up to {nanos} ns");
        Ok(())
    }
}

/// A key that takes each permit as soon as it can.
struct Debtor {
    key: String,
    /// Between which two moments the wait of the last refusal ends.
    due: Option<(Timestamp, Timestamp)>,
    admitted: u64,
    early: u64,
    refused: u64,
    late: u64,
    /// Refusals because the flood took its slot when it had recovered.
    full: u64,
}

impl Debtor {
    fn new(number: usize) -> Self {
        let key = format!("debtor-{number}");
        Self { key, due: None, admitted: 0, early: 0, refused: 0, late: 0, full: 0 }
    }

    /// Takes permits until one is refused.
    fn visit(&mut self, limiter: &MemoryLimiter, clock: &SystemClock) {
        loop {
            // The limiter reads the same clock between these two.
            let before = clock.now();
            let decision = limiter.check(&self.key);
            let after = clock.now();
            if decision.is_admitted() {
                self.admitted += 1;
                self.early += u64::from(self.due.is_some_and(|(earliest, _)| after < earliest));
                self.due = None;
            } else {
                self.refused += 1;
                self.full += u64::from(decision.source() == Source::FullTable);
                self.late += u64::from(self.due.is_some_and(|(_, latest)| before >= latest));
                let wait = decision.retry_after().unwrap_or(Duration::MAX);
                self.due = Some((before.saturating_add(wait), after.saturating_add(wait)));
                return;
            }
        }
    }
}

/// How many checks took how long: 32 ranges for each doubling, so a quantile is at most 3 % high.
struct Times(Vec<u64>);

impl Times {
    const STEPS: u64 = 32;

    fn new() -> Self {
        Self(vec![0; 64 * 32])
    }

    fn add(&mut self, time: Duration) {
        let nanos = time.as_nanos() as u64;
        let index = if nanos < Self::STEPS {
            nanos
        } else {
            let shift = u64::from(nanos.ilog2()) - 5;
            (shift + 1) * Self::STEPS + (nanos >> shift) - Self::STEPS
        };
        self.0[index as usize] += 1;
    }

    /// Returns the upper end of the range that holds this part of all times.
    fn quantile(&self, part: f64) -> u64 {
        let wanted = self.0.iter().sum::<u64>() as f64 * part;
        let mut seen = 0;
        for (index, number) in (0_u64..).zip(&self.0) {
            seen += number;
            if seen as f64 >= wanted {
                let (shift, step) = (index / Self::STEPS, index % Self::STEPS);
                return if shift == 0 { step } else { (step + Self::STEPS + 1) << (shift - 1) };
            }
        }
        0
    }
}
