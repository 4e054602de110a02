//! How many bytes a key takes: the growth of a process's resident memory, each in a process of its own.

use std::{
    env, fs,
    hint::black_box,
    process::{self, Command},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    algorithms,
    memory::Quota,
    rounds::{Effort, Table},
};

const ONE_KEY: &str = "Limiter, a limiter with room for one key";

pub(crate) fn print(effort: &Effort) -> Result<()> {
    println!(
        "## Bytes a key\n\nThe growth of a process's resident memory by string keys of 16 bytes.\n"
    );
    let mut table = Table::new(["limiter", "bytes a key"]);
    for name in ["Limiter", "governor", "rate-net", ONE_KEY] {
        let keys = if name == ONE_KEY { 10_000 } else { effort.keys };
        table.row([name.to_owned(), measure(name, keys)?]);
    }
    println!("{table}");
    Ok(())
}

/// Returns the bytes of a key by a process that prints them.
pub(crate) fn measure(what: &str, keys: usize) -> Result<String> {
    let process =
        Command::new(env::current_exe()?).args(["bytes", what, &keys.to_string()]).output()?;
    ensure!(process.status.success(), "bytes {what}: {:?}", process.status);
    Ok(String::from_utf8(process.stdout)?.trim().to_owned())
}

/// Prints the growth of this process by so many keys.
pub(crate) fn child(what: &str, keys: usize) -> Result<()> {
    let key = |number: usize| format!("account-{number:08}");
    let before = resident()?;
    let quota = Quota::ADMITS_ONE;
    macro_rules! fill {
        ($limiter:expr, |$used:ident, $key:ident| $check:expr) => {{
            let $used = $limiter;
            for number in 0..keys {
                let $key = key(number);
                let _ = $check;
            }
            (resident()?, black_box(&$used)).0
        }};
    }
    let after = match what {
        "Limiter" => fill!(quota.ours(keys), |limiter, key| limiter.check(key.as_str())),
        "governor" => fill!(quota.keyed_governor(), |limiter, key| limiter.check_key(&key)),
        "rate-net" => fill!(quota.keyed_rate_net(keys), |limiter, key| limiter.check(key.as_str())),
        ONE_KEY => {
            let limiters: Vec<_> = (0..keys).map(|_| quota.ours(1)).collect();
            (resident()?, black_box(&limiters)).0
        }
        what => match what.split_once(" of ") {
            Some((permits, slug)) => algorithms::fill(slug, permits.parse()?, keys)?,
            None => bail!("no limiter is named {what:?}"),
        },
    };
    println!("{:.0}", after.saturating_sub(before) as f64 / keys as f64);
    // Freeing a table of a million keys takes longer than this.
    process::exit(0)
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("/proc/self/status has no VmRSS")?.parse::<u64>()? * 1_024)
}
