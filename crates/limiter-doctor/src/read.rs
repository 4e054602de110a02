//! Reads keys, by scripts that only read.

use std::time::Duration;

use limiter_redis::{CallError, Fault, ScriptReply};

use crate::{state::Permits, subject::Content};

/// How long one command may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(1);

/// Defines `read(key, slot, span)`, which returns the type, the milliseconds until a key expires, and its value.
///
/// Of a hash that is all of it. Of a list that is the first element; the permits of the entries that have ended by the
/// slot and the span, in microseconds; and 1, or 0 if not all of these were read: from the oldest on, at most 10,000 in
/// a script. Of a sorted set it is how many members it has, how many have scores that are over, the highest score, and
/// the first 20 members, each with its score.
pub(crate) const READ: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local unread = 10000

local function ended(key, head, slot, span)
  local function is_over(at)
    return at - at % slot + span <= now
  end
  local newest = string.match(head, '^%d+')
  local sum, from = 0, 1
  if not newest or is_over(newest) then
    return 0, 1
  end
  while unread > 0 do
    local page = redis.call('LRANGE', key, from, from + 99)
    for _, element in ipairs(page) do
      local at, count = string.match(element, '^(%d+) (%d+)$')
      if not at or not is_over(at) then
        return sum, 1
      end
      sum = sum + count
    end
    if #page < 100 then
      return sum, 1
    end
    from, unread = from + 100, unread - 100
  end
  return sum, 0
end

local function read(key, slot, span)
  local kind = redis.call('TYPE', key).ok
  local read = { kind, redis.call('PTTL', key) }
  if kind == 'hash' then
    read[3] = redis.call('HGETALL', key)
  elseif kind == 'list' then
    local head = redis.call('LRANGE', key, 0, 0)[1]
    local sum, is_whole = 0, 1
    if span ~= '' then
      sum, is_whole = ended(key, head, slot + 0, span + 0)
    end
    read[3], read[4], read[5] = head, math.min(sum, 2 ^ 53), is_whole
  elseif kind == 'zset' then
    local over = redis.call('ZCOUNT', key, '-inf', string.format('%d', now))
    local latest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    read[3] = { redis.call('ZCARD', key), over, latest, redis.call('ZRANGE', key, 0, 19, 'WITHSCORES') }
  end
  return read
end

-- Bytes that are not UTF-8 would be replaced.
local function hex(text)
  return (string.gsub(text, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end
";

/// What is stored at a key.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The time until the key expires, `None` if it never does.
    pub(crate) expires_in: Option<Duration>,
    pub(crate) value: Value,
}

/// A value as it was read from a server.
#[derive(Debug)]
pub(crate) enum Value {
    Absent,
    /// The fields, in the order of their names.
    Hash(Vec<(String, String)>),
    List(Log),
    Set(Permits),
    /// Of a type that no limiter writes.
    Other,
}

/// What was read of a list.
#[derive(Debug)]
pub(crate) struct Log {
    /// The first element.
    pub(crate) head: String,
    /// The permits of the entries that have ended.
    pub(crate) ended: u64,
    /// Whether all entries were read that have ended.
    pub(crate) is_whole: bool,
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
        let value = match (kind.as_str(), value) {
            ("none", _) => Value::Absent,
            ("hash", [ScriptReply::Array(words)]) => {
                let (fields, _) = words.as_chunks::<2>();
                let fields = fields.iter().map(|[name, value]| Some((text(name)?, text(value)?)));
                let mut fields = fields.collect::<Option<Vec<_>>>()?;
                fields.sort();
                Value::Hash(fields)
            }
            ("list", [head, ScriptReply::Integer(ended), ScriptReply::Integer(is_whole)]) => {
                Value::List(Log {
                    head: text(head)?,
                    ended: u64::try_from(*ended).ok()?,
                    is_whole: *is_whole == 1,
                })
            }
            ("zset", [ScriptReply::Array(set)]) => Value::Set(permits(set)?),
            _ => Value::Other,
        };
        let expires_in = u64::try_from(*expires_in).ok().map(Duration::from_millis);
        Some(Self { expires_in, value })
    }

    pub(crate) const fn exists(&self) -> bool {
        !matches!(self.value, Value::Absent)
    }
}

/// Returns the arguments of `read` for the entries of a log: its slot and its span, or two empty ones.
pub(crate) fn arguments(content: &Content) -> [String; 2] {
    let micros = |time: Duration| time.as_nanos().div_ceil(1_000).to_string();
    match content {
        Content::Log(identity) => [identity.slot(), identity.span].map(micros),
        Content::Hash | Content::InFlight | Content::Unknown => [String::new(), String::new()],
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

/// Returns the bytes that a script has replied by `hex`.
pub(crate) fn bytes(reply: &ScriptReply) -> Option<Vec<u8>> {
    let digits = text(reply)?;
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(byte).collect()
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
