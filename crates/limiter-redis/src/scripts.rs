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

/// Defines the scripts that limiters send, and what they include, by the names of their sources.
macro_rules! scripts {
    ([$($name:ident)+] [$($function:ident)+]) => {
        /// The scripts that limiters send. All limiters share their texts.
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)+
        }

        impl Scripts {
            pub(crate) fn shared() -> &'static Self {
                static SHARED: LazyLock<Scripts> = LazyLock::new(|| {
                    let script = |source| Script::new(text(source));
                    Scripts { $($name: script(source!("", $name)),)+ }
                });
                &SHARED
            }
        }

        /// Returns the name and the text of each script that limiters send.
        pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
            let Scripts { $($name,)+ } = Scripts::shared();
            let all = [$((stringify!($name), $name)),+];
            all.into_iter().map(|(name, it)| (name, str::from_utf8(&it.source).unwrap_or_default()))
        }

        const FUNCTIONS: &[(&str, &str)] =
            &[$((stringify!($function), source!("functions/", $function))),+];
    };
}

macro_rules! source {
    ($folder:literal, $name:ident) => {
        include_str!(concat!("scripts/", $folder, stringify!($name), ".lua"))
    };
}

scripts! {
    [gcra window log list lease refund reset enter renew leave]
    [clock scaled expire write hash gcra window windows log]
}

/// Sets `now` from the server's clock. Each script that needs the time contains it as it is.
#[cfg(test)]
pub(crate) const CLOCK: &str = include_str!("scripts/functions/clock.lua");

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
        let known: Vec<_> = FUNCTIONS.iter().map(|(known, _)| *known).collect();
        panic!("unknown include {name:?}; expected one of {}", known.join(", "));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "unknown include \"scaled_up\"; expected one of clock, scaled, ")]
    fn an_unknown_include_is_not_an_empty_text() {
        let _ = text("local a = 1\n  -- include scaled_up\nreturn a");
    }
}
