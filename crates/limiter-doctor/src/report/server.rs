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
            replicas(name, &info, findings);
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
                      return errors, or decide in memory";
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
        let advice = "wait until it has loaded its data. Until then, limiters return errors, or decide in \
                      memory";
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
        let advice = "give it more memory: when it is full, limiters can't store admissions of new subjects, and return \
                      errors or decide in memory";
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
        "evicts keys when its memory is full ({policy}), and {uses}: an evicted subject has all \
         its permits again"
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
            "has neither a replica nor an append-only file: after a crash, all permits are free",
            advice,
        );
    }
}

/// How long ago a replica may have reported what it has, which it does each second.
const MAX_SILENCE: u64 = 5;

/// How many bytes a replica may lack: about a second of 10,000 checks.
const MAX_BEHIND: u64 = 1 << 20;

/// Adds an advice for each replica that lags.
fn replicas(server: &str, info: &Info, findings: &mut Findings) {
    let written = info.number("master_repl_offset").unwrap_or(0);
    for number in 0..info.number("connected_slaves").unwrap_or(0) {
        let Some(replica) = info.get(&format!("slave{number}")) else { continue };
        if let Some(why) = lag(replica, written) {
            let advice = "find out why: the network, its processor or disk, or a full synchronisation. A failover to it loses \
                          the charges that it lacks, so their permits are available once more";
            findings.advise(server, format!("its replica {why}"), advice);
        }
    }
}

/// Returns how a replica lags, from a line such as `ip=10.0.0.2,port=6379,state=online,offset=512,lag=0`.
fn lag(replica: &str, written: u64) -> Option<String> {
    let get =
        |name: &str| replica.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let number = |name| get(name).and_then(|number| number.parse::<u64>().ok());
    let name = format!("{}:{}", get("ip")?, get("port")?);
    let (state, silence) = (get("state")?, number("lag").unwrap_or(0));
    let behind = written.saturating_sub(number("offset").unwrap_or(written));
    if state != "online" {
        Some(format!("{name} is not in sync yet: its state is {state}"))
    } else if silence > MAX_SILENCE {
        Some(format!("{name} has not replied for {silence} s"))
    } else if behind > MAX_BEHIND {
        Some(format!("{name} is {} behind", bytes(behind)))
    } else {
        None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_lag_are_named() {
        let lag = |rest: &str| lag(&format!("ip=10.0.0.2,port=6380,{rest}"), 10 << 20);
        assert_eq!(lag("state=online,offset=10485760,lag=1"), None);
        assert_eq!(lag("state=online,offset=9437184,lag=5"), None);
        let text = "10.0.0.2:6380 is 2 MiB behind";
        assert_eq!(lag("state=online,offset=8388608,lag=1").unwrap(), text);
        let text = "10.0.0.2:6380 has not replied for 6 s";
        assert_eq!(lag("state=online,offset=10485760,lag=6").unwrap(), text);
        let text = "10.0.0.2:6380 is not in sync yet: its state is wait_bgsave";
        assert_eq!(lag("state=wait_bgsave,offset=0,lag=0").unwrap(), text);
    }
}
