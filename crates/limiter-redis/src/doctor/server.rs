//! A server: its version, its role, its memory, and what it keeps.

use super::{Report, WITHIN};
use crate::{call::faults::CallError, client::connection::Server};

/// What `INFO` tells: lines of `name:value`.
struct Info(String);

/// Returns whether the server answers at all.
pub(super) async fn examine(server: &Server, report: &mut Report) -> bool {
    let name = &server.name;
    match server.send("INFO", &[], WITHIN).await.map(|reply| reply.as_string().map(Info)) {
        Ok(Some(info)) => {
            version(name, &info, report);
            role(name, &info, report);
            eviction(name, &info, report);
            durability(name, &info, report);
        }
        Ok(None) => report.advise(name, "INFO has no text", "is it a Redis or Valkey?"),
        Err(error) => return no_info(name, &error, report),
    }
    true
}

fn no_info(server: &str, error: &CallError, report: &mut Report) -> bool {
    let why = error.to_string();
    let answered = why.contains("NOPERM");
    if answered {
        let advice = "allow the user +info to let the doctor look; limits don't need it";
        report.advise(server, format!("INFO is not permitted: {why}"), advice);
    } else {
        let advice = "check the address, the password and the network; until it answers, checks \
                      follow the failure policy";
        report.problem(server, format!("can't be asked: {why}"), advice);
    }
    answered
}

fn version(server: &str, info: &Info, report: &mut Report) {
    let valkey = info.get("valkey_version");
    let (name, version) = match (valkey, info.get("redis_version")) {
        (Some(version), _) => ("Valkey", version),
        (None, Some(version)) => ("Redis", version),
        (None, None) => return,
    };
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if (major, minor) < (6, 2) {
        let advice = "use Redis 6.2 or later, or Valkey: the scripts need RPOP with a count";
        report.problem(server, format!("{name} {version} is too old"), advice);
    } else {
        report.fine(server, format!("{name} {version}"));
    }
}

fn role(server: &str, info: &Info, report: &mut Report) {
    if info.get("role") == Some("slave") {
        let advice = "connect to the primary, or name the sentinels by redis-sentinel://";
        report.problem(server, "is a replica: it can't write", advice);
    }
    if info.get("loading") == Some("1") {
        let advice = "wait until it has loaded its data; checks follow the failure policy";
        report.problem(server, "is loading its data", advice);
    }
}

fn eviction(server: &str, info: &Info, report: &mut Report) {
    let limit = info.number("maxmemory").unwrap_or(0);
    let policy = info.get("maxmemory_policy").unwrap_or("noeviction");
    let used = info.number("used_memory").unwrap_or(0);
    if limit == 0 {
        report.fine(server, "has no memory limit, so it evicts nothing");
        return;
    }
    let percent = used.saturating_mul(100) / limit;
    if policy == "noeviction" {
        if percent >= 80 {
            let advice = "give it more memory: when it is full, checks follow the failure policy";
            report.advise(server, format!("uses {percent} % of its memory"), advice);
        } else {
            report.fine(server, format!("evicts nothing, and uses {percent} % of its memory"));
        }
        return;
    }
    let text = format!(
        "evicts keys when its memory is full ({policy}), and uses {percent} % of it: a key that is \
         evicted starts afresh, with all its permits"
    );
    let advice = "set maxmemory-policy noeviction, or keep limits on a server of their own";
    if percent >= 80 || info.number("evicted_keys").unwrap_or(0) > 0 {
        report.problem(server, text, advice);
    } else {
        report.advise(server, text, advice);
    }
}

fn durability(server: &str, info: &Info, report: &mut Report) {
    let appends = info.get("aof_enabled") == Some("1");
    let replicas = info.number("connected_slaves").unwrap_or(0);
    if appends || replicas > 0 {
        let kept = if appends { "an append-only file" } else { "a replica" };
        report.fine(server, format!("keeps states in {kept} when it restarts or fails"));
    } else {
        let advice = "appendonly yes or a replica, if that matters: short windows are best without";
        report.advise(
            server,
            "has neither replica nor append-only file: a crash forgets debts",
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
