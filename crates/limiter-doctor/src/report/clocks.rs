//! How far the servers' clocks are from this machine's, and from each other's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limiter_redis::{ScriptReply, Server};

use super::Findings;
use crate::read::{WITHIN, time};

/// How far clocks may be apart.
const MAX_APART: Duration = Duration::from_millis(500);

pub(super) async fn examine(servers: &[Server], findings: &mut Findings) {
    let (started, start) = (SystemTime::now(), Instant::now());
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    // The time of each clock at `start`.
    let mut shown: Vec<(&str, Duration)> = Vec::new();
    for server in servers {
        let Ok(reply) = server.send("TIME", &[""; 0], WITHIN).await else { continue };
        let Some(theirs) = clock(&reply) else { continue };
        let theirs = theirs.saturating_sub(start.elapsed());
        let apart = theirs.abs_diff(started);
        let than = if theirs > started { "ahead of" } else { "behind" };
        let text = format!("its clock is {apart:.1?} {than} this machine's");
        if apart > MAX_APART {
            let advice = "run NTP on both machines. Limits hold, because only the server's clock \
                          decides, but times in logs differ";
            findings.advise(server.name(), text, advice);
        } else {
            findings.fine(server.name(), text);
        }
        shown.push((server.name(), theirs));
    }
    let earliest = shown.iter().min_by_key(|(_, theirs)| *theirs);
    let latest = shown.iter().max_by_key(|(_, theirs)| *theirs);
    if let (Some((slow, earliest)), Some((fast, latest))) = (earliest, latest) {
        let apart = latest.saturating_sub(*earliest);
        if apart > MAX_APART {
            let text = format!("its clock is {apart:.1?} ahead of that of {slow}");
            let advice = "run NTP on the servers: after a failover or a migration, keys recover too early \
                          or too late by this much";
            findings.problem(fast, text, advice);
        }
    }
}

/// Returns the time in a reply to `TIME`.
fn clock(reply: &ScriptReply) -> Option<Duration> {
    let ScriptReply::Array(parts) = reply else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    time(seconds, micros).map(Duration::from_micros)
}
