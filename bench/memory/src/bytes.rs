//! How many bytes a key takes.

use std::{
    env,
    hint::black_box,
    process::{self, Command},
};

use anyhow::{Context, Result, bail, ensure};
use governor::DefaultKeyedRateLimiter;
use limiter_core::MemoryLimiter;
use rate_net::RateLimiter;

use crate::{
    Effort, host,
    keys::Key,
    subjects::{self, Keyed, Quota},
};

/// The bytes of a key, by the name of the limiter.
pub(crate) struct Bytes {
    pub(crate) name: &'static str,
    pub(crate) bytes: f64,
}

/// Ours with one key for all.
pub(crate) const ONE_KEY: &str = "Limiter, a limiter with room for one key";

/// Returns the bytes of a string key in each limiter, and those of a limiter with room for one
/// key, measured in processes of their own.
pub(crate) fn measure(effort: &Effort) -> Result<Vec<Bytes>> {
    let names = [
        <MemoryLimiter as Keyed<String>>::NAME,
        <DefaultKeyedRateLimiter<String> as Keyed<String>>::NAME,
        <RateLimiter as Keyed<String>>::NAME,
        ONE_KEY,
    ];
    let measure = |name: &'static str| {
        eprintln!("bytes: {name}");
        let keys = if name == ONE_KEY { 10_000 } else { effort.bytes }.to_string();
        let output = Command::new(env::current_exe()?).args(["bytes", name, &keys]).output()?;
        ensure!(output.status.success(), "bytes {name}: {:?}", output.status);
        let bytes = String::from_utf8(output.stdout)?.trim().parse().context("bytes")?;
        Ok(Bytes { name, bytes })
    };
    names.into_iter().map(measure).collect()
}

/// Prints the growth of this process's resident memory by each key.
pub(crate) fn print(limiter: &str, keys: usize) -> Result<()> {
    if limiter == <MemoryLimiter as Keyed<String>>::NAME {
        print_of::<MemoryLimiter>(keys)
    } else if limiter == <DefaultKeyedRateLimiter<String> as Keyed<String>>::NAME {
        print_of::<DefaultKeyedRateLimiter<String>>(keys)
    } else if limiter == <RateLimiter as Keyed<String>>::NAME {
        print_of::<RateLimiter>(keys)
    } else if limiter == ONE_KEY {
        print_one_key(keys)
    } else {
        bail!("no limiter is named {limiter:?}")
    }
}

fn print_one_key(limiters: usize) -> Result<()> {
    let before = host::resident()?;
    let limiters: Vec<_> = (0..limiters).map(|_| subjects::one_key(Quota::COMMON)).collect();
    let after = host::resident()?;
    println!("{:.1}", (after - before) as f64 / black_box(&limiters).len() as f64);
    Ok(())
}

fn print_of<L: Keyed<String>>(keys: usize) -> Result<()> {
    let before = host::resident()?;
    let limiter = L::new(Quota::ADMITS_ONE, keys);
    let admitted = (0..keys).filter(|number| limiter.check(&String::of(*number))).count();
    let after = host::resident()?;
    black_box(&limiter);
    ensure!(admitted > keys / 2, "{} of {keys} keys were admitted", admitted);
    println!("{:.1}", (after - before) as f64 / keys as f64);
    // Freeing a table of a million keys takes longer than this.
    process::exit(0)
}
