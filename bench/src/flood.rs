//! A flood of fresh keys, while some debtors are watched.

use std::time::Duration;

use anyhow::{Result, ensure};
use limiter_core::{Clock, MemoryLimiter, Policy, Quota, SystemClock, Timestamp};

use crate::{bytes::resident, rounds::Effort};

/// A key that was charged once is in debt for 600 ms.
const QUOTA: Quota = Quota::per_minute(100).with_burst(5);

/// How many fresh keys come between two visits to all debtors.
const BETWEEN_VISITS: usize = 200_000;

/// A key that takes each permit as soon as it can, and when the wait of its last refusal ends at the earliest.
type Debtor = (String, Option<Timestamp>);

/// Prints by how much the memory grew, and fails if a debtor was admitted early.
pub(crate) fn print(effort: &Effort) -> Result<()> {
    let (room, keys) = (effort.keys, effort.keys * 50);
    let clock = SystemClock::new();
    let limiter = MemoryLimiter::builder(Policy::gcra("flood", QUOTA)).capacity(room).build()?;
    let mut debtors: Vec<Debtor> = (0..1_000).map(|it| (format!("debtor-{it}"), None)).collect();
    let (mut admitted, mut early, mut memory) = (0, 0, Vec::new());
    for number in 0..keys {
        let _ = limiter.check(format!("fresh-{number}").as_str());
        if number % BETWEEN_VISITS == 0 {
            for (key, due) in &mut debtors {
                let before = clock.now();
                let decision = limiter.check(key.as_str());
                if decision.is_admitted() {
                    admitted += 1;
                    early += u32::from(due.is_some_and(|due| clock.now() < due));
                }
                let wait = decision.retry_after().unwrap_or(Duration::ZERO);
                *due = Some(before.saturating_add(wait));
            }
            memory.push(resident()? >> 20);
        }
    }
    let (first, most) = (memory.get(1).unwrap_or(&0), memory.iter().max().unwrap_or(&0));
    println!(
        "{keys} fresh keys through a limiter for {room}, 100/min with a burst of 5:\n\n\
         - resident memory: {first} MB after the first {BETWEEN_VISITS}, at most {most} MB later\n\
         - {} debtors: {admitted} admissions, {early} of them early\n",
        debtors.len()
    );
    ensure!(early == 0, "{early} admissions of debtors were early");
    Ok(())
}
