//! `report`: whether a server is configured to keep limits, and what to change.

mod checks;
mod clocks;
mod commands;
mod findings;
mod keyspace;
mod server;
mod slots;

use std::process;

use self::findings::Findings;
use crate::{Failure, Outcome, arguments::Server, top};

/// Checks the version, the role, the memory, the durability, the slots of a cluster, the clocks, the permissions that the
/// scripts need, the time of a check, and the expiries of the keys.
///
/// It writes and deletes a few keys of its own, and reads at most 20,000 others on each
/// server. A server that can't be reached is a finding.
pub(crate) async fn run(server: &Server) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    // Checks the prefix, too.
    let key = server.hash_key(&connection, "doctor", format!("doctor-{}", process::id()))?;
    let pattern = top::pattern(server, &connection, None)?;
    let mut findings = Findings::default();
    let servers = connection.servers();
    if servers.is_empty() {
        let advice = "check the address, that this machine can reach the nodes, and that the user has \
                      +cluster|slots";
        findings.problem("cluster", "no node replied with its slots", advice);
    }
    let mut is_reachable = false;
    for server in &servers {
        is_reachable |= server::examine(server, &mut findings).await;
    }
    if is_reachable {
        for server in &servers {
            slots::examine(server, &mut findings).await;
        }
        clocks::examine(&servers, &mut findings).await;
        let mut can_check = true;
        for server in &servers {
            let key = String::from_utf8_lossy(&key);
            can_check &= commands::examine(server, &key, &pattern, &mut findings).await;
        }
        // A check that is refused in its middle would leave a key without an expiry.
        if can_check {
            checks::examine(&connection, &server.prefix, &mut findings).await;
        }
        for server in &servers {
            keyspace::examine(server, &pattern, &mut findings).await;
        }
    }
    let is_healthy = findings.are_healthy();
    Ok(Outcome { text: findings.to_string(), has_problem: !is_healthy })
}
