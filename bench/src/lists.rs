//! One decision over three demands by one call, beside three checks in turn, by one task.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limiter_core::{Cost, Demand, Policy, Quota, decide};
use limiter_redis::RedisLimiter;

use crate::{
    Bench,
    table::{Sample, Table},
};

/// A list of one demand, of three, and three checks.
const NAMES: [&str; 4] = ["one check", "three checks in turn", "a list of one", "a list of three"];

struct Three([RedisLimiter; 3]);

/// Prints the rates, and the ratio of a list of three to three checks.
pub(crate) fn table(bench: &Bench) -> Result<()> {
    let three = bench.runtime.block_on(three(&bench.host.url()))?;
    let mut rates: [Sample; NAMES.len()] = Default::default();
    let rounds = bench.effort.clients;
    for round in 0..rounds.number {
        for turn in 0..NAMES.len() {
            let index = (turn + round) % NAMES.len();
            let rate = bench.runtime.block_on(run(&three, index, rounds.turn))?;
            if let Some(sample) = rates.get_mut(index) {
                sample.push(rate);
            }
        }
    }
    println!("\n## Lists of demands\n\nA second, by one task, of 1,000 keys that are admitted.\n");
    let mut table = Table::new(&["what", "decisions/s"]);
    for (name, sample) in NAMES.iter().zip(&rates) {
        table.row([(*name).to_owned(), sample.show(1.0, 0)]);
    }
    table.print();
    let [_, checks, _, list] = &rates;
    println!("A list of three to three checks in turn: {}.", list.over(checks).show(1.0, 2));
    Ok(())
}

async fn three(url: &str) -> Result<Three> {
    let quota = Quota::per_second(100_000);
    let first = RedisLimiter::builder(Policy::gcra("requests", quota)).connect(url).await?;
    let others = ["tokens", "tenant"].map(|name| first.sibling(&Policy::gcra(name, quota)));
    let [second, third] = others;
    Ok(Three([first, second?, third?]))
}

/// Returns how many decisions there are a second.
async fn run(three: &Three, index: usize, turn: Duration) -> Result<f64> {
    let Three(limiters) = three;
    let (start, mut number) = (Instant::now(), 0_u32);
    while start.elapsed() < turn {
        let key = format!("user-{}", number % 1_000);
        let count = if index == 2 { 1 } else { limiters.len() };
        let admitted = if index < 2 {
            let mut admitted = true;
            for limiter in limiters.iter().take(if index == 0 { 1 } else { limiters.len() }) {
                admitted &= limiter.check(key.as_str()).await?.is_admitted();
            }
            admitted
        } else {
            let demands = limiters.iter().take(count);
            let demands: Vec<_> =
                demands.map(|limiter| Demand::new(limiter, key.as_str(), Cost::ONE)).collect();
            let decided = decide(&demands);
            drop(demands);
            decided.await?.is_admitted()
        };
        ensure!(admitted, "a decision was refused");
        number += 1;
    }
    Ok(f64::from(number) / start.elapsed().as_secs_f64())
}
