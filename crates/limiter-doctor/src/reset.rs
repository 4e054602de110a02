//! `reset`: deletes what is stored of a subject, and says what processes may still spend of it by leases.

use std::time::Duration;

use limiter_redis::{Connection, LEASES, ScriptCall, ScriptClient as _, ScriptReply};

use crate::{
    Failure, Outcome,
    arguments::{Server, Target},
    block::BlockState,
    explain::lease_left,
    identity::{Family, Identity},
    limits::Limits,
    read::{READ, Stored, Value, WITHIN, invalid, time},
    state::State,
    subject::Content,
    target::{self, Found, REPLACED, Targets},
    words,
};

/// Reads a key, and deletes it. If a Lua pattern is given, it deletes only a hash whose fields all match. One call a key,
/// because in a cluster one call of several fails while their slot is migrated.
const RESET: &str = "
local found = read(KEYS[1], '', '')
local is_its = ARGV[1] == '' or found[1] == 'hash'
for n = 1, found[1] == 'hash' and #found[3] or 0, 2 do
  is_its = is_its and string.match(found[3][n], ARGV[1])
end
return { time[1], time[2], found, is_its and redis.call('UNLINK', KEYS[1]) or 0 }
";

/// The longest lease of a window.
const LONGEST: Duration = Duration::from_secs(1);

const IN_FLIGHT_GOES_ON: &str = "Requests in flight go on. Those that take longer than a third of their permits' expiry \
                                 count again, as far as there is room.\n";

const UNKNOWN: &str = "no limiter of this version has such keys. To delete it, give this key.\n";

const NOT_OF_BLOCK: &str = "its value is not the state of a block. To delete it, give this key.\n";

pub(crate) async fn run(server: &Server, target: &Target) -> Result<Outcome, Failure> {
    let connection = server.connect().await?;
    let Targets { keys, searched, note, may_be_replaced } =
        target::find(server, &connection, target, &Limits::default()).await?;
    let (mut deleted, mut left, mut notes) = (String::new(), String::new(), String::new());
    for Found { key, parts, block, is_given } in keys {
        let shown = words::text(&key);
        if parts.content == Content::Unknown && !is_given {
            left += &format!("Left {shown}: {UNKNOWN}");
            continue;
        }
        let (now, stored, is_deleted) = reset(&connection, key, block).await?;
        if !is_deleted {
            if stored.exists() {
                left += &format!("Left {shown}: {NOT_OF_BLOCK}");
            }
            continue;
        }
        deleted += &format!("Deleted {shown}\n");
        match &stored.value {
            Value::Hash(fields) => notes.extend(leases(fields, now)),
            Value::Set(_) if parts.content == Content::InFlight => notes += IN_FLIGHT_GOES_ON,
            _ => {}
        }
    }
    let has_problem = deleted.is_empty();
    let result = if !has_problem {
        deleted
            + "All permits of the subject are free. A process that has cached a denial refuses it for at most one \
               more second.\n"
    } else if !left.is_empty() {
        "Nothing was deleted.\n".to_owned()
    } else if may_be_replaced {
        REPLACED.to_owned()
    } else {
        format!(
            "No key begins with {}, so nothing was deleted. Check the subject, the --kind, the --prefix and the \
             policy's name, or give the key as `top` prints it.\n",
            searched.join(" or ")
        )
    };
    Ok(Outcome { text: note + &left + &result + &notes, has_problem })
}

/// Resets one key. Returns the server's time, what was stored, and whether it was deleted.
async fn reset(
    connection: &Connection,
    key: Vec<u8>,
    block: Option<BlockState>,
) -> Result<(u64, Stored, bool), Failure> {
    let mut call = ScriptCall::new(&[READ, RESET].concat(), vec![key.into()]);
    call.arguments = vec![block.map_or("", BlockState::field_pattern).into()];
    let reply = connection.run(&call, WITHIN).await?;
    let read = || {
        let ScriptReply::Array(items) = &reply else { return None };
        let [seconds, micros, stored, ScriptReply::Integer(deleted)] = items.as_slice() else {
            return None;
        };
        Some((time(seconds, micros)?, Stored::of(stored)?, *deleted > 0))
    };
    Ok(read().ok_or_else(|| invalid(&reply))?)
}

/// Returns sentences on what processes may still spend of a hash that was deleted.
fn leases(fields: &[(String, String)], now: u64) -> Vec<String> {
    let sentence = |(field, text): &(String, String)| {
        let (name, is_lease) = match field.strip_suffix(LEASES) {
            Some(name) => (name, true),
            None => (field.as_str(), false),
        };
        let identity = Identity::parse(name)?;
        let left = match (identity.family, is_lease) {
            (Family::Gcra, true) => lease_left(&identity, text, now)?,
            (Family::Gcra, false) => return None,
            // Of windows it is not stored whether there are leases.
            _ => State::of_field(&identity, text, now).free_in.min(LONGEST),
        };
        let time = words::time(left);
        match (left.is_zero(), is_lease) {
            (true, _) => None,
            (false, true) => Some(format!(
                "Processes may still spend what they leased of {name}, for at most {time}.\n"
            )),
            (false, false) => Some(format!(
                "If processes lease permits of {name}, they may still spend what they hold, for at most {time}.\n"
            )),
        }
    };
    fields.iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    fn of(field: &str, text: &str) -> Vec<String> {
        leases(&[(field.to_owned(), text.to_owned())], NOW)
    }

    #[test]
    fn leases_by_gcra_last_until_the_latest_ends() {
        let text =
            "Processes may still spend what they leased of hour/gcra.2s, for at most 200 ms.\n";
        assert_eq!(of("hour/gcra.2s:leases", "1700000000200000"), [text]);
        for ended in ["", "nonsense", "1700000000000000", "1699999999000000", "9999999999000000"] {
            assert!(of("gcra.2s:leases", ended).is_empty(), "{ended}");
        }
        assert!(of("gcra.2s", "1700000000200000").is_empty());
    }

    #[test]
    fn leases_of_windows_last_for_a_second_at_most_and_not_after_the_window() {
        for (field, text, left) in [
            ("fixed-window.60s", "1700000050000000 7", Some("1 s")),
            ("aligned-window.60s", "1700000040000000 7", Some("1 s")),
            ("fixed-window.60s", "1700000000300000 7", Some("300 ms")),
            ("sliding-counter.60s", "1700000060300000 7 0", Some("1 s")),
            ("sliding-counter.60s", "1700000060300000 0 7", Some("300 ms")),
            ("fixed-window.60s", "1699999999000000 7", None),
            ("fixed-window.60s", "", None),
            ("unknown", "1700000050000000 7", None),
        ] {
            let found = of(field, text);
            let end = left
                .map(|left| format!("they may still spend what they hold, for at most {left}.\n"));
            assert_eq!(found.len(), usize::from(end.is_some()), "{field} {text}");
            assert!(found.iter().all(|it| it.ends_with(end.as_deref().unwrap())), "{found:?}");
        }
    }
}
