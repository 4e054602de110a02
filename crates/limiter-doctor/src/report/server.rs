//! A server: its version, its role, its memory and its durability.

use limiter_redis::{CallError, Server};

use super::{Findings, commands::Denial};
use crate::{
    read::{WITHIN, text},
    words::bytes,
};

/// The reply to `INFO`: lines of `name:value`.
struct Info(String);

/// Returns whether the server replies.
pub(super) async fn examine(server: &Server, findings: &mut Findings) -> bool {
    let name = server.name();
    match server.send("INFO", &[""; 0], WITHIN).await.map(|reply| text(&reply).map(Info)) {
        Ok(Some(info)) => {
            version(name, &info, findings);
            role(name, &info, findings);
            eviction(name, &info, findings);
            durability(name, &info, findings);
        }
        Ok(None) => {
            findings.advise(name, "INFO replied with no text", "check that it is Redis or Valkey");
        }
        Err(error) => return no_info(name, &error, findings),
    }
    true
}

fn no_info(server: &str, error: &CallError, findings: &mut Findings) -> bool {
    let why = error.to_string();
    let answered = Denial::of(error).is_some();
    if answered {
        let advice = "allow the user +info, so that this command can check the configuration. Limiters \
                      don't need it";
        findings.advise(server, format!("INFO is not permitted: {why}"), advice);
    } else {
        let advice = "check the address, the password and the network. Until it replies, limiters \
                      return errors, or decide by a share in memory";
        findings.problem(server, format!("no reply: {why}"), advice);
    }
    answered
}

fn version(server: &str, info: &Info, findings: &mut Findings) {
    let valkey = info.get("valkey_version");
    let (name, version) = match (valkey, info.get("redis_version")) {
        (Some(version), _) => ("Valkey", version),
        (None, Some(version)) => ("Redis", version),
        (None, None) => return,
    };
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if (major, minor) < (6, 2) {
        let advice = "use Redis 6.2 or later, or Valkey";
        findings.problem(server, format!("{name} {version} is too old"), advice);
    } else {
        findings.fine(server, format!("{name} {version}"));
    }
}

fn role(server: &str, info: &Info, findings: &mut Findings) {
    if info.get("role") == Some("slave") {
        let advice = "connect to the primary, or give the sentinels as redis-sentinel://";
        findings.problem(server, "is a replica, which can't write", advice);
    }
    if info.get("loading") == Some("1") {
        let advice = "wait until it has loaded its data. Until then, limiters return errors, or decide by a \
                      share in memory";
        findings.problem(server, "is loading its data", advice);
    }
}

fn eviction(server: &str, info: &Info, findings: &mut Findings) {
    let limit = info.number("maxmemory").unwrap_or(0);
    let policy = info.get("maxmemory_policy").unwrap_or("noeviction");
    let used = info.number("used_memory").unwrap_or(0);
    if limit == 0 {
        let advice = "set maxmemory below the memory of the machine or container, and maxmemory-policy noeviction";
        let text = "has no memory limit: if keys fill the machine's memory, the system may kill the server";
        findings.advise(server, text, advice);
        return;
    }
    let percent = used.saturating_mul(100) / limit;
    let uses = match percent {
        0..=100 => format!("uses {percent} % of its limit of {} of memory", bytes(limit)),
        _ => format!("uses {}, more than its limit of {} of memory", bytes(used), bytes(limit)),
    };
    if policy == "noeviction" {
        let advice = "give it more memory: when it is full, limiters of fresh subjects return errors, or decide by a share \
                      in memory";
        if percent >= 100 {
            findings.problem(server, format!("is full, and {uses}"), advice);
        } else if percent >= 80 {
            findings.advise(server, uses, advice);
        } else {
            findings.fine(server, format!("evicts no keys, and {uses}"));
        }
        return;
    }
    let text = format!(
        "evicts keys when its memory is full ({policy}), and {uses}: an evicted subject is fresh, with \
         all its permits"
    );
    let advice = "set maxmemory-policy noeviction, or use a server for limits only";
    if percent >= 80 || info.number("evicted_keys").unwrap_or(0) > 0 {
        findings.problem(server, text, advice);
    } else {
        findings.advise(server, text, advice);
    }
}

fn durability(server: &str, info: &Info, findings: &mut Findings) {
    let appends = info.get("aof_enabled") == Some("1");
    let replicas = info.number("connected_slaves").unwrap_or(0);
    if appends || replicas > 0 {
        let kept = if appends { "an append-only file" } else { "a replica" };
        findings.fine(server, format!("has {kept}, so states survive a crash"));
    } else {
        let advice = "set appendonly yes or add a replica, if limits of an hour or longer must survive. \
                      Short limits don't need it";
        findings.advise(
            server,
            "has neither a replica nor an append-only file: after a crash, all subjects are fresh",
            advice,
        );
    }
}

impl Info {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}
