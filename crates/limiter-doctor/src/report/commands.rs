//! Whether the user may run each command that limiters send, and whether the server has it.

use limiter_redis::{
    CallError, Fault, Server,
    scripts::{CALL_COMMANDS, IN_FLIGHT_COMMANDS, SCRIPT_COMMANDS},
};

use super::Findings;
use crate::read::WITHIN;

/// No script has this digest.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// Runs each command once on the key, which no limiter has. It is deleted, and expires after a second if it
/// can't be deleted. Another node's key is enough in a cluster: a node checks permissions before slots.
///
/// Returns whether none was refused.
pub(super) async fn examine(
    server: &Server,
    key: &str,
    keys: &str,
    findings: &mut Findings,
) -> bool {
    // Writes come last: their key must expire.
    let commands = CALL_COMMANDS.iter().chain(SCRIPT_COMMANDS).copied();
    let adds = |command: &&str| matches!(*command, "HSET" | "RPUSH");
    let (writes, others): (Vec<_>, Vec<_>) = commands.partition(adds);
    let (mut denied, mut missing) = (Vec::new(), Vec::new());
    let mut denied_key = None;
    for command in others.into_iter().chain(writes) {
        let can_not = |command: &&str| denied.contains(command) || missing.contains(command);
        if adds(&command) && ["UNLINK", "PEXPIRE"].iter().all(can_not) {
            continue;
        }
        let Err(error) = server.send(command, &arguments(command, key), WITHIN).await else {
            continue;
        };
        match Denial::of(&error) {
            Some(Denial::Command) => denied.push(command),
            Some(Denial::Key) => denied_key = Some(error),
            Some(Denial::Missing) => missing.push(command),
            None if is_unreachable(&error) => return true,
            None => {}
        }
    }
    for command in ["PEXPIRE", "UNLINK"] {
        drop(server.send(command, &arguments(command, key), WITHIN).await);
    }
    let can_run_all = report(server.name(), keys, &denied, &missing, denied_key.as_ref(), findings);
    if can_run_all {
        examine_in_flight(server, key, keys, findings).await;
    }
    can_run_all
}

/// Runs the commands that only limits on requests in flight need, which many services have not.
async fn examine_in_flight(server: &Server, key: &str, keys: &str, findings: &mut Findings) {
    let mut denied = Vec::new();
    for command in IN_FLIGHT_COMMANDS {
        let reply = server.send(command, &arguments(command, key), WITHIN).await;
        if let Err(error) = reply
            && matches!(Denial::of(&error), Some(Denial::Command | Denial::Missing))
        {
            denied.push(*command);
        }
    }
    if !denied.is_empty() {
        let text = format!(
            "the user may not run {}, which limits on requests in flight need",
            denied.join(", ")
        );
        let advice = format!("allow the user {} on the keys ~{keys}", permissions(&denied));
        findings.advise(server.name(), text, &advice);
    }
}

fn report(
    server: &str,
    keys: &str,
    denied: &[&str],
    missing: &[&str],
    denied_key: Option<&CallError>,
    findings: &mut Findings,
) -> bool {
    let list = |commands: &[&str]| commands.join(", ");
    if !denied.is_empty() {
        let advice = format!("allow the user {} on the keys ~{keys}", permissions(denied));
        findings.problem(server, format!("the user may not run {}", list(denied)), &advice);
    }
    if let Some(error) = denied_key {
        let advice = format!("allow the user the keys ~{keys}");
        findings.problem(
            server,
            format!("the user may not use the limiters' keys: {error}"),
            &advice,
        );
    }
    if !missing.is_empty() {
        let advice = "remove their rename-command from the server's configuration, because limiters and \
                      their scripts call them by these names";
        findings.problem(server, format!("the server has no {}", list(missing)), advice);
    }
    let can_run_all = denied.is_empty() && missing.is_empty() && denied_key.is_none();
    if can_run_all {
        findings.fine(server, "the user may run all commands that limiters send");
    }
    can_run_all
}

/// Returns commands as an operator allows them, such as `+evalsha +eval`.
fn permissions(commands: &[&str]) -> String {
    let permissions = commands.iter().map(|command| format!("+{}", command.to_lowercase()));
    permissions.collect::<Vec<_>>().join(" ")
}

/// Why a command was not executed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// The user may not run the command.
    Command,
    /// The user may not use the key.
    Key,
    /// The server does not have the command.
    Missing,
}

impl Denial {
    /// Returns the denial in an error reply of a server of any version.
    pub(super) fn of(error: &CallError) -> Option<Self> {
        let text = error.to_string();
        let has = |words: &[&str]| words.iter().any(|words| text.contains(words));
        if has(&["unknown command", "Unknown Redis command"]) {
            Some(Self::Missing)
        } else if has(&["NOPERM", "can't run this command", "ACL failure in script"]) {
            Some(if has(&["access one of the keys", "access a key"]) {
                Self::Key
            } else {
                Self::Command
            })
        } else {
            None
        }
    }
}

fn is_unreachable(error: &CallError) -> bool {
    matches!(error.fault(), Fault::NotSent | Fault::NoTime | Fault::NoReply)
}

/// Returns arguments with which the command changes nothing but the key.
fn arguments<'a>(command: &str, key: &'a str) -> Vec<&'a str> {
    match command {
        "TIME" => vec![],
        "EVAL" => vec!["return 1", "1", key],
        "EVALSHA" => vec![NO_SCRIPT, "1", key],
        "PEXPIRE" => vec![key, "1000"],
        "LINDEX" => vec![key, "0"],
        "LSET" => vec![key, "0", "1"],
        "LRANGE" | "LTRIM" => vec![key, "0", "-1"],
        "LREM" => vec![key, "0", "1"],
        "RPUSH" | "HGET" | "HMGET" | "HDEL" => vec![key, "1"],
        "HSET" => vec![key, "1", "1"],
        // A server checks how many arguments there are before it checks permissions. It adds nothing to a key without a
        // value.
        "ZADD" => vec![key, "XX", "1", "1"],
        "ZREM" | "ZMSCORE" => vec![key, "1"],
        "ZCOUNT" | "ZREMRANGEBYSCORE" => vec![key, "0", "1"],
        _ => vec![key],
    }
}
