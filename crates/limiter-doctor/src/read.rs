//! Reads keys, by scripts that only read.

use std::time::Duration;

use limiter_redis::{CallError, Fault, ScriptReply, state::Family};

use crate::state::Value;

/// How long one command may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(1);

/// Defines `read(key)`, which returns the type, the milliseconds until a key expires, and its value: of a
/// list the first element, and the oldest entry that counts, found in as many steps as the length has bits.
pub(crate) const READ: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function oldest(key, head)
  local slot, span = string.match(head, '^%d+ %d+ %d+ (%d+) (%d+) %d+$')
  local low, high, found = 1, redis.call('LLEN', key), nil
  while slot and low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('LINDEX', key, middle)
    local at = string.match(entry, '^(%d+) %d+ %d+$')
    if not at then
      return entry
    elseif at - at % slot + span > now then
      high, found = middle, entry
    else
      low = middle + 1
    end
  end
  return found
end

local function read(key)
  local kind = redis.call('TYPE', key).ok
  local read = { kind, redis.call('PTTL', key) }
  if kind == 'string' then
    read[3] = redis.call('GET', key)
  elseif kind == 'list' then
    read[3] = redis.call('LINDEX', key, 0)
    read[4] = oldest(key, read[3])
  end
  return read
end
";

/// What is stored at a key.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The type: `string`, `list`, `none` and others.
    pub(crate) kind: String,
    /// The time until the key expires, `None` if it never does.
    pub(crate) expires_in: Option<Duration>,
    pub(crate) value: Value,
}

impl Stored {
    /// Returns what `read` returned.
    pub(crate) fn of(reply: &ScriptReply) -> Option<Self> {
        let ScriptReply::Array(items) = reply else { return None };
        let [ScriptReply::Text(kind), ScriptReply::Integer(expires_in), value @ ..] =
            items.as_slice()
        else {
            return None;
        };
        let texts = value.iter().map(text).collect::<Option<Vec<_>>>()?;
        let value = match texts.as_slice() {
            [value] if kind == "string" => Value::Text(value.clone()),
            _ => Value::List(texts),
        };
        let expires_in = u64::try_from(*expires_in).ok().map(Duration::from_millis);
        Some(Self { kind: kind.clone(), expires_in, value })
    }

    pub(crate) fn exists(&self) -> bool {
        self.kind != "none"
    }

    /// Returns whether the value has the type that algorithms store.
    pub(crate) fn is_of(&self, families: &[Family]) -> bool {
        let is_list = matches!(families, [family] if family.is_list());
        self.kind == if is_list { "list" } else { "string" }
    }
}

/// Returns the text of a reply, `None` if it is another one.
pub(crate) fn text(reply: &ScriptReply) -> Option<String> {
    match reply {
        ScriptReply::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns microseconds of Unix time from the two texts that `TIME` returns.
pub(crate) fn time(seconds: &ScriptReply, micros: &ScriptReply) -> Option<u64> {
    let number = |reply| text(reply)?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

/// Returns the error for a reply that a script can't have returned.
pub(crate) fn invalid(reply: &ScriptReply) -> CallError {
    let message = format!("the server's reply can't be read: {reply:.200?}");
    CallError::new(Fault::InvalidReply, message)
}
