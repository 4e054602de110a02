//! Reads keys, by scripts that only read.

use std::time::Duration;

use limiter_redis::{CallError, Fault, ScriptReply};

use crate::{
    state::{Elements, Permits, Value},
    stored::Family,
};

/// How long one command may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(1);

/// Defines `read(key, slot, span)`, which returns the type, the milliseconds until a key expires, and its
/// value. Of a list that is the first element; the permits of the entries that have ended; the oldest other
/// entry, empty if that is the first element; and 1, or 0 if not all entries that have ended were read. Of a sorted set it is how many members it has,
/// how many have scores that are over, the highest score, and the first 20 members, each with its score.
///
/// Entries have ended if no quota of the list counts them, and with a slot and a span, if a quota with these
/// does not count them. They are read from the oldest on, at most 10,000 in a script.
pub(crate) const READ: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local unread = 10000

-- Returns when the entries of a list stop counting that were taken at a moment.
local function ends_by(head, own_slot, own_span)
  local at, slot, span = string.match(head, '^(%d+) %d+ %d+ %d+ (%d+) (%d+) %d+$')
  local writers = {}
  if at then
    writers[1] = { slot, span, at + 0 }
  end
  for slot, span, newest in string.gmatch(head, ', (%d+) (%d+) %d+ (%d+)') do
    writers[#writers + 1] = { slot, span, newest + 0 }
  end
  return function(at)
    local ends = 0
    for _, writer in ipairs(writers) do
      local at = math.min(at, writer[3])
      ends = math.max(ends, at - at % writer[1] + writer[2])
    end
    return own_slot and math.min(ends, at - at % own_slot + own_span) or ends
  end
end

-- Returns the permits of the entries that have ended, the oldest other entry, and whether all were read.
local function ended(key, head, slot, span)
  local end_of, newest = ends_by(head, slot, span), string.match(head, '^%d+')
  local sum, from = 0, 1
  if not newest or end_of(newest + 0) <= now then
    return 0, '', 1
  end
  while unread > 0 do
    local page = redis.call('LRANGE', key, from, from + 99)
    for _, element in ipairs(page) do
      local at, count = string.match(element, '^(%d+) (%d+)$')
      if not at or end_of(at + 0) > now then
        return sum, element, 1
      end
      sum = sum + count
    end
    if #page < 100 then
      return sum, '', 1
    end
    from, unread = from + 100, unread - 100
  end
  return sum, '', 0
end

local function read(key, slot, span)
  local kind = redis.call('TYPE', key).ok
  local read = { kind, redis.call('PTTL', key) }
  if kind == 'string' then
    read[3] = redis.call('GET', key)
  elseif kind == 'list' then
    local head = redis.call('LINDEX', key, 0)
    local sum, oldest, is_whole = ended(key, head, slot, span)
    read[3], read[4], read[5], read[6] = head, math.min(sum, 2 ^ 53), oldest, is_whole
  elseif kind == 'zset' then
    local over = redis.call('ZCOUNT', key, '-inf', string.format('%d', now))
    local latest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    read[3] = { redis.call('ZCARD', key), over, latest, redis.call('ZRANGE', key, 0, 19, 'WITHSCORES') }
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
        let value = match value {
            [] => Value::Other,
            [ScriptReply::Array(set)] => Value::Set(permits(set)?),
            [value] => Value::Text(text(value)?),
            [head, ScriptReply::Integer(ended), oldest, ScriptReply::Integer(is_whole)] => {
                Value::List(Elements {
                    head: text(head)?,
                    ended: u64::try_from(*ended).ok()?,
                    oldest: text(oldest).filter(|oldest| !oldest.is_empty()),
                    is_whole: *is_whole == 1,
                })
            }
            _ => return None,
        };
        let expires_in = u64::try_from(*expires_in).ok().map(Duration::from_millis);
        Some(Self { kind: kind.clone(), expires_in, value })
    }

    pub(crate) fn exists(&self) -> bool {
        self.kind != "none"
    }

    /// Returns whether the value has the type that the family's algorithms store.
    pub(crate) fn is_of(&self, family: Family) -> bool {
        self.kind == family.kind()
    }
}

/// Returns what was read of a sorted set.
fn permits(set: &[ScriptReply]) -> Option<Permits> {
    let [
        ScriptReply::Integer(all),
        ScriptReply::Integer(expired),
        latest,
        ScriptReply::Array(first),
    ] = set
    else {
        return None;
    };
    let (first, _) = first.as_chunks::<2>();
    let first = first.iter().map(|[id, deadline]| Some((text(id)?, text(deadline)?)));
    Some(Permits {
        all: u64::try_from(*all).ok()?,
        expired: u64::try_from(*expired).ok()?,
        latest: text(latest)?,
        first: first.collect::<Option<_>>()?,
    })
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
