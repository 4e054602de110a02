//! Reads keys, by scripts that only read.

use std::time::Duration;

use limiter_redis::{CallError, Fault, ScriptReply};

use crate::state::Value;

/// How long one command may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(1);

/// Defines `read(key, elements)`, which returns the type, the milliseconds until a key expires, and its
/// value: of a list the first element, and so many after it.
pub(crate) const READ: &str = "
local function read(key, elements)
  local kind = redis.call('TYPE', key).ok
  local read, value = { kind, redis.call('PTTL', key) }, {}
  if kind == 'string' then
    value = { redis.call('GET', key) }
  elseif kind == 'list' then
    value = redis.call('LRANGE', key, 0, elements)
  end
  for _, element in ipairs(value) do
    read[#read + 1] = element
  end
  return read
end
local time = redis.call('TIME')
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

    /// Returns whether the value has the type that algorithms store.
    pub(crate) fn is_of(&self, families: &str) -> bool {
        let is_list = matches!(families, "sliding-log" | "sub-windows");
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
