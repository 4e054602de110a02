//! `cargo xtask bounds`: the most that each algorithm may admit, and the most that an adversary got.

use anyhow::{Result, ensure};
use limiter_test::bounds::cases;
use xshell::Shell;

/// How many changes the adversary tries for each row. All rows together take some seconds.
const CLIMBS: u32 = 1_000;
const SEED: u64 = 1;

/// Prints the table, and fails if a bound was broken.
pub(crate) fn run(_: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "bounds takes no arguments");
    println!("The most permits in any trailing window as long as the quota's:\n");
    println!("| algorithm | quota | bound | | found | tight |\n|---|---|---|---|---|---|");
    let mut broken = 0;
    for row in cases::rows(CLIMBS, SEED) {
        let (bound, found) = (row.bound.permits, row.found);
        let tight = match found.cmp(&bound) {
            std::cmp::Ordering::Less => "no",
            std::cmp::Ordering::Equal => "yes",
            std::cmp::Ordering::Greater => "BROKEN",
        };
        broken += u32::from(found > bound);
        let (algorithm, quota, formula) = (row.algorithm, row.quota, row.bound.formula);
        println!("| {algorithm} | {quota} | {formula} | {bound} | {found} | {tight} |");
    }
    ensure!(broken == 0, "{broken} bounds are broken");
    Ok(())
}
