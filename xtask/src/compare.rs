//! `cargo xtask compare`: measures the algorithms side by side, and prints the figures.

mod memory;
mod time;

use anyhow::{Result, ensure};
use limiter_core::{MemoryLimiter, Policy};
use limiter_test::{
    bounds::adversary::{Effort, Means, attack},
    traffic::{self, Contender, Outcome, QUOTA, contenders},
};
use xshell::{Shell, cmd};

use crate::workspace;

/// The permits and seconds that the adversary attacks: enough permits for the ratio to be near its
/// limit.
const ATTACKED: (u64, u64) = (100, 10);

/// Prints the tables, by a release build.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "compare takes no arguments");
    if cfg!(debug_assertions) {
        let cargo = cmd!(shell, "cargo run --quiet --release --package xtask -- compare");
        return Ok(cargo.quiet().run()?);
    }
    accuracy(&workspace::commit(shell)?);
    memory::table()?;
    time::table()?;
    Ok(())
}

fn accuracy(commit: &str) {
    let traffic = traffic::all();
    let names: Vec<_> = traffic.iter().map(|traffic| traffic.name).collect();
    let (permits, seconds) = QUOTA;
    println!(
        "All figures are printed by `cargo xtask compare`, at commit {commit}. Sub-windows have ten slots.\n\n\
         ## Accuracy\n\nThe first two columns are for a limit `L` of {} permits: the most that an \
         adversary got in one window, and the most that a fresh key can take at once. The next three \
         are for {permits} permits in {seconds} s: the requests that were refused although fewer than \
         {permits} had been admitted in the window. The traffic is {}.\n",
        ATTACKED.0,
        names.join(", in "),
    );
    println!(
        "| algorithm | most in a window | at once | refused below the limit: steady | bursts | edges | choose it if |"
    );
    println!("|---|---|---|---|---|---|---|");
    let attacked = contenders(ATTACKED.0, ATTACKED.1);
    for (contender, attacked) in contenders(permits, seconds).iter().zip(&attacked) {
        let refused = traffic.each_ref().map(|traffic| {
            let outcomes = traffic::send(&contender.policy, traffic);
            format!("{} of {}", refused_below(&outcomes), outcomes.len())
        });
        let burst = at_once(&attacked.policy);
        let [steady, bursts, edges] = refused;
        let (name, when, most) = (contender.name, contender.when, most(attacked));
        println!(
            "| {name} | {most} L | {burst} of {} | {steady} | {bursts} | {edges} | {when} |",
            ATTACKED.0
        );
    }
    println!();
}

fn refused_below(outcomes: &[Outcome]) -> usize {
    let limit = usize::try_from(QUOTA.0).unwrap_or(usize::MAX);
    traffic::wrongly_refused(outcomes, limit, QUOTA.1 * 1_000)
}

/// Returns what the adversary got, with two decimals.
fn most(contender: &Contender) -> String {
    let most = contender.policy.limits().iter().map(|limit| {
        let effort = Effort { climbs: 200, seed: 1, means: Means::Refund };
        attack(&contender.policy, limit, limit.quota().window(), effort).most
    });
    let hundredths = most.max().unwrap_or(0) * 100 / u128::from(ATTACKED.0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Returns how many permits a fresh key has at once.
fn at_once(policy: &Policy) -> u64 {
    MemoryLimiter::new(policy.clone()).peek("key").burst()
}
