//! The scripts: what is sent, and what comes back.
//!
//! Each decides whatever it finds. `gcra`, `window` and `log` check subjects by one limit, and `list` does everything else
//! that charges permits. Three are for requests in flight. A source may include others by lines such as `-- include scaled`. The texts are made
//! and hashed once for all limiters, because quotas are arguments.

mod limit;
mod plan;
mod terms;

use std::{iter, sync::LazyLock};

pub(crate) use limit::{Kind, ScriptLimit, counted, duration, exact, number};
pub(crate) use plan::{Plan, list};
pub(crate) use terms::LeaseTerms;

use crate::client::Script;
pub use crate::client::digest;

/// The sources of the scripts that are sent, by name.
const SOURCES: [(&str, &str); 10] = [
    ("gcra", include_str!("scripts/gcra.lua")),
    ("window", include_str!("scripts/window.lua")),
    ("log", include_str!("scripts/log.lua")),
    ("list", include_str!("scripts/list.lua")),
    ("lease", include_str!("scripts/lease.lua")),
    ("refund", include_str!("scripts/refund.lua")),
    ("reset", include_str!("scripts/reset.lua")),
    ("enter", include_str!("scripts/enter.lua")),
    ("renew", include_str!("scripts/renew.lua")),
    ("leave", include_str!("scripts/leave.lua")),
];

/// What sources include, by name.
const FUNCTIONS: [(&str, &str); 9] = [
    ("clock", include_str!("scripts/functions/clock.lua")),
    ("scaled", include_str!("scripts/functions/scaled.lua")),
    ("expire", include_str!("scripts/functions/expire.lua")),
    ("write", include_str!("scripts/functions/write.lua")),
    ("hash", include_str!("scripts/functions/hash.lua")),
    ("gcra", include_str!("scripts/functions/gcra.lua")),
    ("window", include_str!("scripts/functions/window.lua")),
    ("windows", include_str!("scripts/functions/windows.lua")),
    ("log", include_str!("scripts/functions/log.lua")),
];

/// Sets `now` from the server's clock. Each script that needs the time contains it as it is.
#[cfg(test)]
pub(crate) const CLOCK: &str = include_str!("scripts/functions/clock.lua");

/// Returns the name and the text of each script that limiters send.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    static TEXTS: LazyLock<[(&str, String); SOURCES.len()]> =
        LazyLock::new(|| SOURCES.map(|(name, source)| (name, text(source))));
    TEXTS.iter().map(|(name, text)| (*name, text.as_str()))
}

/// Returns a script as it is sent: its source and what that includes, as far indented.
fn text(source: &str) -> String {
    let mut text = String::new();
    for line in source.lines() {
        let code = line.trim_start();
        let Some(name) = code.strip_prefix("-- include ") else {
            text.extend([line, "\n"]);
            continue;
        };
        let indentation = line.len() - code.len();
        for line in self::text(function(name)).lines() {
            text.extend(iter::repeat_n(' ', if line.is_empty() { 0 } else { indentation }));
            text.extend([line, "\n"]);
        }
    }
    text
}

/// Returns the text that a source includes by a name.
///
/// # Panics
///
/// If no function has the name. Sources are constants, and tests build all of them, so no release panics.
#[expect(clippy::panic, reason = "a script without one of its functions would decide wrongly")]
fn function(name: &str) -> &'static str {
    let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
    let Some((_, text)) = found else {
        let known = FUNCTIONS.map(|(known, _)| known).join(", ");
        panic!("unknown include {name:?}; expected one of {known}");
    };
    text
}

/// The commands that send scripts.
#[doc(hidden)]
pub const CALL_COMMANDS: &[&str] = &["EVALSHA", "EVAL"];

/// The commands that scripts of rates call.
#[doc(hidden)]
pub const SCRIPT_COMMANDS: &[&str] = &[
    "TIME", "PTTL", "PEXPIRE", "UNLINK", "HGET", "HMGET", "HGETALL", "HSET", "HDEL", "LLEN",
    "LINDEX", "LRANGE", "LSET", "RPUSH", "LTRIM", "LREM",
];

/// The commands that scripts of requests in flight call, apart from those of rates.
#[doc(hidden)]
pub const IN_FLIGHT_COMMANDS: &[&str] =
    &["ZADD", "ZREM", "ZCARD", "ZCOUNT", "ZMSCORE", "ZREMRANGEBYSCORE"];

/// The scripts that limiters send.
pub(crate) struct Scripts {
    gcra: Script,
    window: Script,
    log: Script,
    pub(crate) list: Script,
    pub(crate) lease: Script,
    pub(crate) refund: Script,
    pub(crate) reset: Script,
    pub(crate) enter: Script,
    pub(crate) renew: Script,
    pub(crate) leave: Script,
}

impl Scripts {
    /// Returns the scripts, whose texts all limiters share.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: LazyLock<Scripts> = LazyLock::new(|| {
            let [gcra, window, log, list, lease, refund, reset, enter, renew, leave] =
                SOURCES.map(|(_, source)| Script::new(text(source)));
            Scripts { gcra, window, log, list, lease, refund, reset, enter, renew, leave }
        });
        &SHARED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "unknown include \"scaled_up\"; expected one of clock, scaled, ")]
    fn an_unknown_include_is_not_an_empty_text() {
        let _ = text("local a = 1\n  -- include scaled_up\nreturn a");
    }
}
