//! Checks a server before it keeps limits, and says what to change.

mod clocks;
mod decisions;
mod keyspace;
mod report;
mod server;

use std::time::Duration;

pub use report::{Finding, Report, Severity};

use crate::{Builder, client::connection::Connection};

/// How long one command may take.
const WITHIN: Duration = Duration::from_secs(1);

/// Asks the servers of a connection what limits need to know of them, and says what to change.
///
/// It checks the version, the eviction policy, the durability, the permissions that the scripts need,
/// the time of a decision, the servers' clocks, and keys under [`Builder::DEFAULT_PREFIX`] without an
/// expiry. It writes a few keys of its own, which expire within seconds, and reads at most 20,000
/// others on each server.
///
/// It never fails: a server that can't be reached is a finding.
///
/// ```no_run
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let client = limiter_redis::connect("redis://127.0.0.1:6379").await?;
/// let report = limiter_redis::doctor(&client).await;
/// println!("{report}");
/// assert!(report.is_healthy());
/// # Ok(())
/// # }
/// ```
pub async fn doctor(connection: &Connection) -> Report {
    doctor_under(connection, Builder::<Connection>::DEFAULT_PREFIX).await
}

/// Asks as [`doctor`] does, for limiters with the prefix that
/// [`Builder::prefix`] was given.
pub async fn doctor_under(connection: &Connection, prefix: &str) -> Report {
    let mut report = Report::default();
    let servers = connection.servers();
    if servers.is_empty() {
        let advice = "check the address, and that the nodes can be reached from here";
        report.problem("the cluster", "no node tells which slots it serves", advice);
    }
    let mut answered = false;
    for server in &servers {
        answered |= server::examine(server, &mut report).await;
    }
    if !answered {
        // There is nothing more to learn.
        return report;
    }
    clocks::examine(&servers, &mut report).await;
    decisions::examine(connection, prefix, &mut report).await;
    for server in &servers {
        keyspace::examine(server, prefix, &mut report).await;
    }
    report
}
