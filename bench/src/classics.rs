//! The scripts that are most often used for limits through Redis, written for this bench.
//!
//! They do less than the scripts of `limiter-redis`: they trust the server's clock and the values that
//! they read, and assume that a quota never changes.

use std::time::Duration;

use crate::subjects::{
    Traffic::{self, Few, Many},
    WINDOW,
};

/// A script and its arguments.
#[derive(Clone)]
pub(crate) struct Classic {
    pub(crate) name: String,
    pub(crate) source: &'static str,
    pub(crate) arguments: Vec<String>,
}

/// A fixed window: a counter whose expiry is the end of the window. Replies 1 or 0.
///
/// ARGV: limit, window in seconds.
const FIXED_WINDOW: &str = "local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return used <= tonumber(ARGV[1]) and 1 or 0";

/// A log of all admissions in a sorted set, by time. Replies 1 or 0.
///
/// ARGV: limit, window in milliseconds.
const SORTED_SET: &str = "local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[2] * 1000)
local used = redis.call('ZCARD', KEYS[1])
if used >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], now, time[1] .. '.' .. time[2] .. '-' .. used)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// A counter for each slot of a window, in a hash. Replies 1 or 0.
///
/// ARGV: limit, window in milliseconds, number of slots.
const HASH: &str = "local time = redis.call('TIME')
local width = ARGV[2] * 1000 / ARGV[3]
local slot = math.floor((time[1] * 1000000 + time[2]) / width)
local counts, used, expired = redis.call('HGETALL', KEYS[1]), 0, {}
for i = 1, #counts, 2 do
  if tonumber(counts[i]) > slot - ARGV[3] then
    used = used + counts[i + 1]
  else
    expired[#expired + 1] = counts[i]
  end
end
if used >= tonumber(ARGV[1]) then
  return 0
end
if #expired > 0 then
  redis.call('HDEL', KEYS[1], unpack(expired))
end
redis.call('HINCRBY', KEYS[1], string.format('%.0f', slot), 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// GCRA by the rules of the Go library redis_rate 10 (`AllowN`): the same calls, arithmetic, arguments
/// and replies, but none of its text. Times are seconds since 2017 in floating point, and texts in the
/// reply. Replies the cost or 0, the permits that remain, the wait or -1, and the time until the key is
/// fresh.
///
/// The first call does nothing since Redis 7.0, and redis_rate makes it.
///
/// ARGV: burst, permits a period, period in seconds, cost.
const REDIS_RATE: &str = "redis.replicate_commands()
local key, cost = KEYS[1], tonumber(ARGV[4])
local interval = ARGV[3] / ARGV[2]
local charge, depth = interval * cost, interval * ARGV[1]
local time = redis.call('TIME')
local now = (time[1] - 1483228800) + time[2] / 1000000
local tat = tonumber(redis.call('GET', key) or now)
tat = math.max(tat, now)
local after = tat + charge
local room = now - (after - depth)
local remaining = room / interval
if remaining < 0 then
  return { 0, 0, tostring(-room), tostring(tat - now) }
end
local reset = after - now
if reset > 0 then
  redis.call('SET', key, after, 'EX', math.ceil(reset))
end
return { cost, remaining, tostring(-1), tostring(reset) }";

impl Classic {
    /// Returns the arguments as they are sent.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        self.arguments.iter().map(|argument| argument.clone().into_bytes()).collect()
    }
}

/// Returns the scripts whose speed is compared, with the quotas of the policies beside them.
pub(crate) fn all() -> Vec<(Classic, Traffic)> {
    let refused =
        |classic: Classic| Classic { name: format!("{}, refused", classic.name), ..classic };
    let mut all = vec![
        (redis_rate(100), Many),
        (refused(redis_rate(1)), Many),
        (fixed_window(100), Many),
        (refused(fixed_window(1)), Many),
    ];
    all.extend([10, 60, 1_000].map(|slots| (sub_windows(100_000, slots), Few)));
    let mut full = log(100, Duration::from_secs(3_600));
    full.name += " of 100 entries, refused";
    all.extend([(log(100_000, WINDOW), Few), (full, Few)]);
    all
}

/// Returns the script of a fixed window of one hour.
pub(crate) fn fixed_window(limit: u32) -> Classic {
    script("classic: INCR and EXPIRE", FIXED_WINDOW, &[limit, 3_600])
}

/// Returns the script by the rules of redis_rate with `permits` an hour, which is also the burst.
pub(crate) fn redis_rate(permits: u32) -> Classic {
    let name = "redis_rate's rules (written for this bench)";
    script(name, REDIS_RATE, &[permits, permits, 3_600, 1])
}

/// Returns the script of sub-windows of [`WINDOW`].
pub(crate) fn sub_windows(limit: u32, slots: u32) -> Classic {
    let name = format!("classic: hash of sub-windows, {slots} slots");
    script(&name, HASH, &[limit, millis(WINDOW), slots])
}

/// Returns the script of a log in a sorted set.
pub(crate) fn log(limit: u32, window: Duration) -> Classic {
    script("classic: log in a sorted set", SORTED_SET, &[limit, millis(window)])
}

fn script(name: &str, source: &'static str, arguments: &[u32]) -> Classic {
    let arguments = arguments.iter().map(ToString::to_string).collect();
    Classic { name: name.to_owned(), source, arguments }
}

fn millis(window: Duration) -> u32 {
    u32::try_from(window.as_millis()).unwrap_or(u32::MAX)
}
