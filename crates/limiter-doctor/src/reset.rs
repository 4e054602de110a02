//! `reset`: makes a subject fresh, and says what processes may still spend of it by leases.

use std::time::Duration;

use limiter_redis::{Connection, LEASES, ScriptCall, ScriptClient as _, ScriptReply};
use serde_json::{Value as Json, json};

use crate::{
    Failure, Outcome,
    arguments::{Server, Target},
    explain::millis,
    read::{WITHIN, invalid, text, time},
    state::{Value, decode},
    stored::{Family, parse_leases},
    target::{self, Found, REPLACED, Targets},
    words,
};

/// Deletes a key. Returns the server's time, the value if it is text, and how many keys were deleted.
///
/// The end of the latest lease is kept while the lease lasts. State and end are deleted by two calls, because in a
/// cluster one call of both fails while their slot is migrated. If a lease is granted in between, refunds need its end.
const RESET: &str = "
local time = redis.call('TIME')
local value = redis.pcall('GET', KEYS[1])
value = type(value) == 'string' and value or ''
local now, ends = time[1] * 1000000 + time[2], tonumber(string.match(value, '^%d+$') or 0)
local is_kept = ARGV[1] == 'leases' and ends > now and redis.call('PTTL', KEYS[1]) > 0
return { time[1], time[2], value, is_kept and 0 or redis.call('DEL', KEYS[1]) }
";

/// The longest lease of a window.
const LONGEST: Duration = Duration::from_secs(1);

const IN_FLIGHT_GOES_ON: &str = "Requests in flight go on. Those that take longer than a third of their permits' expiry \
                                 count again, as far as there is room.\n";

/// A key after its reset.
struct Reset {
    /// The server's time, in microseconds.
    now: u64,
    /// What was stored, if it was text.
    value: String,
    is_deleted: bool,
}

/// What processes may still spend of a key that was reset.
#[derive(Debug, PartialEq, Eq)]
struct Leases {
    /// Whether a lease was granted. Of windows, that is not stored.
    is_granted: bool,
    /// The most permits, if that is known.
    permits: Option<u64>,
    ends_in: Duration,
}

pub(crate) async fn run(server: &Server, target: &Target) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    let Targets { keys, searched, note, may_be_replaced } =
        target::find(server, &connection, target).await?;
    let (mut deleted, mut missing, mut leases) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_in_flight = false;
    for Found { key, parts, is_of_block, .. } in keys {
        let (shown, family) = (words::text(&key), parts.family());
        let latest_key = [&key, LEASES.as_bytes()].concat();
        let state = reset(&connection, key, "state").await?;
        if state.is_deleted {
            has_in_flight |= family == Ok(Family::InFlight);
            deleted.push(shown.clone());
        } else if !is_of_block {
            missing.push(shown.clone());
        }
        let mut latest = None;
        if family == Ok(Family::Gcra) {
            let shown = words::text(&latest_key);
            let of_latest = reset(&connection, latest_key, "leases").await?;
            deleted.extend(of_latest.is_deleted.then_some(shown));
            latest = Some(of_latest);
        }
        let of_key = family.ok().and_then(|family| Leases::of(family, &state, latest.as_ref()));
        leases.extend(of_key.map(|leases| (shown, leases)));
    }
    let result = if !deleted.is_empty() {
        let deleted: String = deleted.iter().map(|key| format!("Deleted {key}\n")).collect();
        deleted
            + "The subject is fresh. A process that has cached a denial refuses it for at most one more \
               second.\n"
    } else if may_be_replaced {
        REPLACED.to_owned()
    } else if !missing.is_empty() {
        format!("Nothing is stored at {}, so nothing was deleted.\n", missing.join(" and "))
    } else {
        format!(
            "No key begins with {}, so nothing was deleted. Check the subject, the --kind, the --prefix \
             and the policy's name.\n",
            searched.join(" or ")
        )
    };
    let mut notes: String = leases.iter().map(|(key, leases)| leases.text(key)).collect();
    if has_in_flight {
        notes += IN_FLIGHT_GOES_ON;
    }
    let leases: Vec<_> = leases.iter().map(|(key, leases)| leases.json(key)).collect();
    let has_problem = deleted.is_empty();
    let json = json!({ "deleted": deleted, "leases": leases });
    Ok(Outcome { text: note + &result + &notes, json, has_problem })
}

/// Resets one key, which has a `state` or the end of the latest of its `leases`.
async fn reset(connection: &Connection, key: Vec<u8>, has: &'static str) -> Result<Reset, Failure> {
    let mut call = ScriptCall::new(RESET, vec![key.into()]);
    call.arguments = vec![has.into()];
    let reply = connection.run(&call, WITHIN).await?;
    let read = || {
        let ScriptReply::Array(items) = &reply else { return None };
        let [seconds, micros, value, ScriptReply::Integer(deleted)] = items.as_slice() else {
            return None;
        };
        let (now, value) = (time(seconds, micros)?, text(value)?);
        Some(Reset { now, value, is_deleted: *deleted > 0 })
    };
    Ok(read().ok_or_else(|| invalid(&reply))?)
}

impl Leases {
    /// Returns what may still be spent of a key, from its state and, by GCRA, the end of the latest lease.
    fn of(family: Family, state: &Reset, latest: Option<&Reset>) -> Option<Self> {
        if family.is_list() || family == Family::InFlight {
            return None;
        }
        let stored = decode(family, &Value::Text(state.value.clone()), None, state.now);
        let leases = match latest {
            Some(Reset { now, value, .. }) => {
                let ends_in = Duration::from_micros(parse_leases(value)?.saturating_sub(*now));
                // The debt has all leased permits and outlasts the leases, unless the quota changed or the key was
                // reset while they lasted.
                let is_known = stored.problem.is_none() && stored.fresh_in >= ends_in;
                Self { is_granted: true, permits: is_known.then_some(stored.used), ends_in }
            }
            None => {
                let ends_in = stored.fresh_in.min(LONGEST);
                Self { is_granted: false, permits: None, ends_in }
            }
        };
        (!leases.ends_in.is_zero()).then_some(leases)
    }

    fn text(&self, key: &str) -> String {
        let ends_in = words::time(self.ends_in);
        match (self.is_granted, self.permits) {
            (true, Some(most)) => {
                let most = words::permits(most);
                format!(
                    "Processes may still spend what they leased of {key}: at most {most}, for at most {ends_in}.\n"
                )
            }
            (true, None) => {
                format!(
                    "Processes may still spend what they leased of {key}, for at most {ends_in}.\n"
                )
            }
            (false, _) => format!(
                "If processes lease permits of {key}, they may still spend what they hold, for at most {ends_in}.\n"
            ),
        }
    }

    fn json(&self, key: &str) -> Json {
        json!({
            "key": key,
            "is_granted": self.is_granted,
            "permits": self.permits,
            "end_in_ms": millis(self.ends_in),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    /// Returns the most permits and the milliseconds in which they may be spent.
    fn of(family: &str, state: &str, latest: Option<&str>) -> Option<(Option<u64>, u128)> {
        let reset = |value: &str| Reset { now: NOW, value: value.to_owned(), is_deleted: true };
        let latest = latest.map(reset);
        let leases = Leases::of(Family::parse(family).unwrap(), &reset(state), latest.as_ref())?;
        assert_eq!(leases.is_granted, family == "gcra");
        Some((leases.permits, leases.ends_in.as_millis()))
    }

    #[test]
    fn leases_by_gcra_last_until_the_latest_ends_and_have_at_most_what_is_in_use() {
        let (state, ends) = ("1700000000300000 1000 2000000", "1700000000200000");
        assert_eq!(of("gcra", state, Some(ends)), Some((Some(300), 200)));
        // Another quota drains faster, or the subject was reset before: leases are not in this debt.
        let drained = "1700000000199999 1000 2000000";
        assert_eq!(of("gcra", drained, Some(ends)), Some((None, 200)));
        for state in ["", "nonsense", "1700000100000000 1000 2000000"] {
            assert_eq!(of("gcra", state, Some(ends)), Some((None, 200)), "{state}");
        }
        for ended in ["", "nonsense", "1700000000000000", "1699999999000000"] {
            assert_eq!(of("gcra", state, Some(ended)), None, "{ended}");
        }
    }

    #[test]
    fn leases_of_windows_last_for_a_second_at_most_and_not_after_the_window() {
        for (family, state, ends_in) in [
            ("fixed-window.2", "1699999990000000 60000000 120000000 7", Some(1_000)),
            ("aligned-window.2", "1699999980000000 60000000 120000000 7", Some(1_000)),
            ("fixed-window.2", "1699999940300000 60000000 120000000 7", Some(300)),
            ("sliding-counter.2", "1699999940300000 60000000 120000000 7 0", Some(1_000)),
            ("sliding-counter.2", "1699999940300000 60000000 120000000 0 7", Some(300)),
            ("fixed-window.2", "1699999939000000 60000000 120000000 7", None),
            ("fixed-window.2", "", None),
            ("sliding-log.3", "", None),
            ("sub-windows.3", "", None),
            ("inflight", "", None),
        ] {
            let ends_in = ends_in.map(|ends_in| (None, ends_in));
            assert_eq!(of(family, state, None), ends_in, "{family} {state}");
        }
    }
}
