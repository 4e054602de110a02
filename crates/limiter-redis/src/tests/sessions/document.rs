//! The sessions in `docs/states.md`, repeated. Tests on other servers include this file.

use std::time::Duration;

use limiter_core::{Error, LimiterFuture, Policy, Timestamp};
use limiter_redis::{Builder, RedisLimiter, ScriptClient};

/// The server of a session, and its client.
pub(crate) trait Terminal {
    type Client: ScriptClient;

    /// Sets the server's clock.
    fn set(&self, now: Timestamp);

    /// Returns a limiter on the server.
    fn limiter(&self, builder: Builder) -> RedisLimiter<Self::Client>;

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> Result<T, Error>;

    /// Returns what `redis-cli` prints in reply to a command.
    fn print(&self, words: &[&str]) -> String;
}

/// Returns a document whose sessions were repeated, each on an empty server.
pub(crate) fn repeated(document: &str, terminal: &impl Terminal) -> String {
    let mut printed = String::new();
    let mut is_session = false;
    for line in document.lines() {
        if line.starts_with("```") {
            is_session = line == "```console";
        }
        if let Some(traffic) = line.strip_prefix("# The policy ").filter(|_| is_session) {
            let _ = terminal.print(&["FLUSHALL"]);
            make(terminal, traffic);
        } else if is_session && !line.starts_with(['$', '`']) {
            // What it printed before.
            continue;
        }
        printed += &format!("{line}\n");
        if let Some(command) = line.strip_prefix("$ redis-cli ") {
            let command = command.replace('"', "");
            printed += &terminal.print(&command.split(' ').collect::<Vec<_>>());
        }
    }
    printed
}

/// Makes the checks of a line such as `"api" is "10/min". 3 checks at 1767225600. 1 check by "9/h" at 1767225610.`
fn make(terminal: &impl Terminal, traffic: &str) {
    let (policy, checks) = traffic.split_once(". ").unwrap();
    let texts: Vec<&str> = policy.split('"').skip(1).step_by(2).collect();
    let (name, limits) = texts.split_first().unwrap();
    let policy = match limits {
        [limit] => Policy::parse(name, limit).unwrap(),
        limits => {
            let limits = limits.iter().map(|limit| {
                let (name, limit) = limit.split_once('=').unwrap();
                Policy::parse(name, limit).unwrap()
            });
            Policy::all_of(name, limits).unwrap()
        }
    };
    let builder = RedisLimiter::builder(policy).deadline(Duration::from_secs(10));
    let limiter = terminal.limiter(builder);
    for checks in checks.trim_end_matches('.').split(". ") {
        let (what, seconds) = checks.split_once(" at ").unwrap();
        let (number, by) = what.split_once(' ').unwrap();
        let by = by.trim_start_matches("checks").trim_start_matches("check");
        terminal.set(Timestamp::from_nanos(seconds.parse::<u64>().unwrap() * 1_000_000_000));
        let handle = by.strip_prefix(" by ").map(|quota| {
            let tier = Policy::parse("tier", quota.trim_matches('"')).unwrap();
            limiter.with_policy(&tier).unwrap()
        });
        let limiter = handle.as_ref().unwrap_or(&limiter);
        for _ in 0..number.parse().unwrap() {
            let decision = terminal.wait_for(limiter.check("alice")).unwrap();
            assert!(decision.is_admitted(), "{traffic}");
        }
    }
}

/// Returns a number as `redis-cli` prints it.
pub(crate) fn integer(number: i64) -> String {
    format!("(integer) {number}\n")
}

/// Returns a text as `redis-cli` prints it.
pub(crate) fn text(text: &str) -> String {
    format!("{text:?}\n")
}

/// Returns texts as `redis-cli` prints them.
pub(crate) fn texts(texts: &[&str]) -> String {
    let lines = texts.iter().enumerate();
    lines.map(|(index, line)| format!("{}) {}", index + 1, text(line))).collect()
}
