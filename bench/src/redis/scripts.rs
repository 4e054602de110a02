//! Decisions a second by the server, beside a script without logic and beside the scripts that are most often used.

use std::time::Duration;

use anyhow::Result;
use limiter_core::{Policy, Quota};
use limiter_rig::server::Server;

use super::{
    NAME, WINDOW, busy, key, several, sub_windows,
    wire::{Call, Calls, Pipe, captured},
};
use crate::rounds::{Contender, Effort, Table, rounds};

/// Keys that are each checked about once a second, whose states outlive the run.
const MANY: usize = 100_000;

/// Keys that are each checked some hundred times within [`WINDOW`], so that slots fill and expire.
const FEW: usize = 50;

/// What each script with a state in a string needs: the time, a read, and a write with an expiry. ARGV: an expiry.
const FLOOR: &str = "local time = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], time[1], 'PX', ARGV[1])
return 1";

/// A fixed window: a counter whose expiry is the end of the window. ARGV: limit, window in seconds.
const FIXED_WINDOW: &str = "local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return used <= tonumber(ARGV[1]) and 1 or 0";

/// A log of all admissions in a sorted set, by time. ARGV: limit, window in milliseconds.
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

/// A counter for each slot of a window, in a hash. ARGV: limit, window in milliseconds, number of slots.
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
/// reply.
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

/// Scripts that are measured beside each other: ours, and the one that does the same.
struct Row {
    name: &'static str,
    policy: Policy,
    keys: usize,
    /// The name, the source and the arguments.
    peer: Option<(&'static str, &'static str, &'static str)>,
}

fn rows() -> Result<Vec<Row>> {
    let row = |name, keys, policy, peer| Row { name, policy, keys, peer };
    let hourly = Quota::per_hour(100);
    let window = Quota::new(100_000, WINDOW)?;
    let rate = "redis_rate's rules (written for this bench)";
    let hash = "classic: hash of sub-windows, 10 slots";
    Ok(vec![
        row("GCRA", MANY, Policy::gcra(NAME, hourly), Some((rate, REDIS_RATE, "100 100 3600 1"))),
        row(
            "GCRA, refused",
            MANY,
            Policy::gcra(NAME, Quota::per_hour(1)),
            Some(("redis_rate's rules, refused", REDIS_RATE, "1 1 3600 1")),
        ),
        row(
            "fixed window",
            MANY,
            Policy::fixed_window(NAME, hourly),
            Some(("classic: INCR and EXPIRE", FIXED_WINDOW, "100 3600")),
        ),
        row("sliding counter", MANY, Policy::sliding_counter(NAME, hourly), None),
        row("2 limits", MANY, several(2)?, None),
        row("8 limits", MANY, several(8)?, None),
        row(
            "sub-windows, 10 slots",
            FEW,
            sub_windows(window, 10)?,
            Some((hash, HASH, "100000 500 10")),
        ),
        row(
            "log",
            FEW,
            Policy::sliding_log(NAME, window),
            Some(("classic: log in a sorted set", SORTED_SET, "100000 500")),
        ),
    ])
}

/// Prints the scripts' speed.
pub(super) fn print(server: &Server, effort: &Effort) -> Result<()> {
    println!(
        "## Scripts\n\nThousands of decisions a second by EVALSHA on one pipelined connection: the median of {} rounds ± half the \
         interquartile range. The floor is TIME, GET and SET with PX, without logic. The script by redis_rate's rules \
         was written for this bench by the published rules of the Go library redis_rate 10 (`AllowN`). It and the classic \
         scripts trust the clock and the value that they read, and assume that a quota never changes. A ratio is that of a \
         script's rate to the rate of the floor with as many keys in the same round: by decisions a second, and by decisions \
         for each second of the server's processor time. With {FEW} keys, slots fill and expire during a turn.\n",
        effort.rounds
    );
    let head = ["script", "keys", "1,000/s", "to the floor", "by the server's time"];
    let mut table = Table::new(head);
    for keys in [MANY, FEW] {
        let mut contenders = vec![bare(server, effort, "floor", FLOOR, "3600000", keys)?];
        for (number, row) in rows()?.into_iter().filter(|row| row.keys == keys).enumerate() {
            let subjects: Vec<String> = (0..keys).map(key).collect();
            let prefix = format!("s{keys}-{number}");
            let (source, calls) = captured(&row.policy, &prefix, &subjects)?;
            contenders.push(contender(server, effort, row.name, &source, calls)?);
            if let Some((name, source, arguments)) = row.peer {
                contenders.push(bare(server, effort, name, source, arguments, keys)?);
            }
        }
        let measured = rounds(effort.rounds, contenders)?;
        for it in &measured {
            let [rate, by_time] =
                [0, 1].map(|at| it.figures[at].over(&measured[0].figures[at]).show(2));
            table.row([it.name.clone(), keys.to_string(), it.figures[0].show(0), rate, by_time]);
        }
    }
    println!("{table}");
    Ok(())
}

fn bare<'a>(
    server: &'a Server,
    effort: &Effort,
    name: &str,
    source: &str,
    arguments: &str,
    keys: usize,
) -> Result<Contender<'a, 2>> {
    let arguments: Vec<Vec<u8>> =
        arguments.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let call = |number| {
        let keys = vec![format!("{name}:{}", key(number)).into_bytes()];
        Call { keys, arguments: arguments.clone() }
    };
    contender(server, effort, name, source, (0..keys).map(call).collect())
}

fn contender<'a>(
    server: &'a Server,
    effort: &Effort,
    name: &str,
    source: &str,
    calls: Vec<Call>,
) -> Result<Contender<'a, 2>> {
    let digest = server.command(&["SCRIPT", "LOAD", source])?;
    let warm_up =
        if calls.len() == FEW { WINDOW + Duration::from_millis(100) } else { Duration::ZERO };
    let least = calls.len();
    let mut calls = Calls::new(digest.lines().next_back().unwrap_or_default(), &calls);
    let mut pipe = Pipe::connect(server.port())?;
    // Each key has a state before anything is measured.
    pipe.run(&mut calls, Duration::ZERO, least)?;
    let time = effort.turn * 5;
    let turn = move || {
        // Slots that have expired since the last turn fill again.
        pipe.run(&mut calls, warm_up, 0)?;
        let before = busy(server.id())?;
        let (number, seconds) = pipe.run(&mut calls, time, 0)?;
        let busy = busy(server.id())? - before;
        Ok([number as f64 / seconds / 1e3, number as f64 / busy / 1e3])
    };
    Ok(Contender { name: name.to_owned(), turn: Box::new(turn) })
}
