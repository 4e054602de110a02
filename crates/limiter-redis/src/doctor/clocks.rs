//! How far the servers' clocks are from this machine's, and from each other's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fred::types::Value;

use super::{Report, WITHIN};
use crate::client::connection::Server;

/// As far as clocks may be apart before it matters.
const MAX_APART: Duration = Duration::from_millis(500);

pub(super) async fn examine(servers: &[Server], report: &mut Report) {
    let (started, start) = (SystemTime::now(), Instant::now());
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    // What each clock showed when the first was asked.
    let mut shown: Vec<(&str, Duration)> = Vec::new();
    for server in servers {
        let Ok(reply) = server.send("TIME", &[], WITHIN).await else { continue };
        let Some(theirs) = time(reply) else { continue };
        let theirs = theirs.saturating_sub(start.elapsed());
        let apart = theirs.abs_diff(started);
        let than = if theirs > started { "ahead of" } else { "behind" };
        let text = format!("its clock is {apart:.1?} {than} this machine's");
        if apart > MAX_APART {
            let advice = "run NTP on both. Decisions go by the server's clock alone, so limits hold; \
                          log lines and absolute times don't match";
            report.advise(&server.name, text, advice);
        } else {
            report.fine(&server.name, text);
        }
        shown.push((&server.name, theirs));
    }
    let earliest = shown.iter().min_by_key(|(_, theirs)| *theirs);
    let latest = shown.iter().max_by_key(|(_, theirs)| *theirs);
    if let (Some((slow, earliest)), Some((fast, latest))) = (earliest, latest) {
        let apart = latest.saturating_sub(*earliest);
        if apart > MAX_APART {
            let text = format!("its clock is {apart:.1?} ahead of that of {slow}");
            let advice = "run NTP on the servers: a key that moves to another one recovers sooner or \
                          later by that";
            report.problem(fast, text, advice);
        }
    }
}

/// Returns the time that `TIME` tells: seconds and microseconds since 1970.
fn time(reply: Value) -> Option<Duration> {
    let parts: Vec<u64> = reply.into_array().iter().filter_map(Value::as_u64).collect();
    let &[seconds, micros] = parts.as_slice() else {
        return None;
    };
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}
