//! `cargo xtask compare`: the algorithms side by side, every figure measured as it is printed.

mod memory;
mod time;

use anyhow::{Result, ensure};
use limiter_test::{
    bounds::{
        adversary::Means,
        adversary::{Effort, attack},
    },
    traffic::{self, Contender, Outcome, QUOTA, contenders},
};
use xshell::{Shell, cmd};

/// What the adversary is measured by: enough permits for the ratio to be near its limit.
const ATTACKED: (u64, u64) = (100, 10);

/// Prints the tables, by a release build.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "compare takes no arguments");
    if cfg!(debug_assertions) {
        let cargo = cmd!(shell, "cargo run --quiet --release --package xtask -- compare");
        return Ok(cargo.quiet().run()?);
    }
    accuracy();
    memory::table()?;
    time::table()?;
    Ok(())
}

fn accuracy() {
    let traffic = traffic::all();
    let names: Vec<_> = traffic.iter().map(|traffic| traffic.name).collect();
    let (permits, seconds) = QUOTA;
    println!(
        "All figures are printed by `cargo xtask compare`. Sub-windows are ten slots.\n\n\
         **Accuracy.** First, by a limit `L` of {} permits: the most that an adversary got within \
         a window, and what a fresh key has at once. Then, by a limit of {permits} permits in \
         {seconds} s: how many requests were refused although fewer than {permits} had been \
         admitted within the window, by traffic that is {}.\n",
        ATTACKED.0,
        names.join(", in "),
    );
    println!(
        "| algorithm | most in a window | at once | refused below the limit: steady | bursts | edges | take it when |"
    );
    println!("|---|---|---|---|---|---|---|");
    let attacked = contenders(ATTACKED.0, ATTACKED.1);
    for (contender, attacked) in contenders(permits, seconds).iter().zip(&attacked) {
        let refused = traffic.each_ref().map(|traffic| {
            let outcomes = traffic::send(&contender.policy, traffic);
            format!("{} of {}", refused_below(&outcomes), outcomes.len())
        });
        let burst = attacked.policy.limits().first().map_or(0, at_once);
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
fn at_once(limit: &limiter_core::Limit) -> u64 {
    use limiter_core::{
        Timestamp,
        algorithm::{Algorithm, Single, State},
    };
    let single = Single::new(limit.kind(), limit.quota());
    single.map_or(0, |single| single.usage(&State::default(), Timestamp::ZERO).limit())
}
