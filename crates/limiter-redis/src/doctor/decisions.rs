//! Decisions: whether the scripts may run, and how long one takes.

use std::{
    process,
    time::{Duration, Instant},
};

use limiter_core::{Error, Policy};

use super::{Report, WITHIN};
use crate::{Builder, RedisLimiter, client::connection::Connection};

/// How many decisions are timed.
const DECISIONS: usize = 100;

/// One algorithm for each kind of value that states are kept in.
const POLICIES: [(&str, &str); 2] =
    [("doctor-text", "1000/s"), ("doctor-tape", "1000/s by sub-windows 10 slots")];

/// What servers say to a user who may not run a script, or not what it calls: of old ones and new.
const NOT_PERMITTED: [&str; 3] = ["NOPERM", "can't run this command", "ACL failure in script"];

pub(super) async fn examine(connection: &Connection, prefix: &str, report: &mut Report) {
    let name = "decisions";
    for (policy, quota) in POLICIES {
        match decide(connection, prefix, policy, quota).await {
            Ok(times) => latency(&format!("{name} ({quota})"), times, report),
            Err(error) => {
                let text = error.to_string();
                let advice = if NOT_PERMITTED.iter().any(|words| text.contains(words)) {
                    "allow the user +evalsha +eval +time +get +set +del +pttl +pexpire +lrange \
                     +llen +lindex +lset +lpush +rpush +rpop +ltrim, on the keys ~PREFIX:*"
                } else {
                    "until this succeeds, checks follow the failure policy"
                };
                report.problem(name, text, advice);
            }
        }
    }
}

/// Returns how long some decisions took, sorted.
async fn decide(
    connection: &Connection,
    prefix: &str,
    policy: &str,
    quota: &str,
) -> Result<Vec<Duration>, Error> {
    let policy = Policy::parse(policy, quota)?;
    let builder = RedisLimiter::builder(connection.clone(), policy);
    let limiter = builder.prefix(prefix).deadline(WITHIN).denial_cache(0).build()?;
    let mut times = Vec::new();
    for number in 0..DECISIONS {
        let key = format!("{}-{}", process::id(), number % 10);
        let start = Instant::now();
        let _ = limiter.check(key).await?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

fn latency(name: &str, times: Vec<Duration>, report: &mut Report) {
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    let (median, p99) = (at(50), at(99));
    let deadline = Builder::<Connection>::DEFAULT_DEADLINE;
    let text = format!("a decision takes {median:.1?}, and one in a hundred {p99:.1?}");
    if p99 > deadline / 2 {
        let advice = "with the default deadline of 50 ms, the circuit breaker will open: move \
                      closer to the server, or use a longer deadline";
        report.problem(name, text, advice);
    } else if median > deadline / 10 {
        let advice = "move closer to the server, or see what slows it down (SLOWLOG GET)";
        report.advise(name, text, advice);
    } else {
        report.fine(name, text);
    }
}
