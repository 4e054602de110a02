//! Checks: whether the scripts may run, and how long a check takes.

use std::{
    process,
    time::{Duration, Instant},
};

use limiter_core::{Error, Policy};
use limiter_redis::{Builder, Connection, RedisLimiter};

use super::Findings;
use crate::read::WITHIN;

/// How many checks are timed.
const CHECKS: usize = 100;

/// How many subjects they are made for.
const SUBJECTS: usize = 10;

/// One algorithm for each type of value.
const POLICIES: [(&str, &str); 2] =
    [("doctor-hash", "1000/s"), ("doctor-list", "1000/s by sub-windows 10 slots")];

pub(super) async fn examine(connection: &Connection, prefix: &str, findings: &mut Findings) {
    let name = "checks";
    for (policy, quota) in POLICIES {
        match decide(connection, prefix, policy, quota).await {
            Ok(times) => latency(&format!("{name} ({quota})"), times, findings),
            Err(error) => {
                let advice = "until this succeeds, limiters return errors, or decide in memory";
                findings.problem(name, error.to_string(), advice);
            }
        }
    }
}

/// Returns how long each of some checks took, sorted.
async fn decide(
    connection: &Connection,
    prefix: &str,
    policy: &str,
    quota: &str,
) -> Result<Vec<Duration>, Error> {
    let policy = Policy::parse(policy, quota)?;
    let builder = RedisLimiter::builder(policy);
    let limiter =
        builder.prefix(prefix).deadline(WITHIN).denial_cache(0).build_on(connection.clone())?;
    let subject = |number| format!("{}-{number}", process::id());
    let mut times = Vec::new();
    for number in 0..CHECKS {
        let start = Instant::now();
        let _ = limiter.check(subject(number % SUBJECTS)).await?;
        times.push(start.elapsed());
    }
    for number in 0..SUBJECTS {
        limiter.reset(subject(number)).await?;
    }
    times.sort_unstable();
    Ok(times)
}

fn latency(name: &str, times: Vec<Duration>, findings: &mut Findings) {
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    let (median, p99) = (at(50), at(99));
    let deadline = Builder::DEFAULT_DEADLINE;
    let text = format!("a check takes {median:.1?}; 1 % take {p99:.1?} or longer");
    if median > deadline / 2 {
        let advice = "the circuit breaker opens, because most replies take half of the default deadline \
                      of 50 ms: move closer to the server, or set a longer deadline";
        findings.problem(name, text, advice);
    } else if median > deadline / 10 || p99 > deadline / 2 {
        let advice = "move closer to the server, or find slow commands with SLOWLOG GET";
        findings.advise(name, text, advice);
    } else {
        findings.fine(name, text);
    }
}
