-- Script  counter: checks keys by sliding counters. Each key is decided on its own.
--
-- State   `since length reach count previous`, in microseconds: the Unix time since which the present window counts, its
--         length, how far ahead of now the quota can set the end, the permits taken in the window, and those taken in
--         the window before, which fade. No key: no permits taken.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: the quota as the state has it, ` length reach `; the permits; the length. Then for each key the
--         cost, unless all are 1.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left }        admitted; the time until the key is fresh, and the permits left
--         { 0, reset, left, wait }  refused; the wait is -1 if the cost never fits
--         text                      the error of SET, such as that of a full memory; nothing is charged
--         false                     the script policy has to decide, because the state is not one window of this quota
--                                   that has begun, or because the permits of the window before and its length have a
--                                   product above 2^53. Nothing is charged.
-- Costs   TIME; for each key GET, and SET if admitted
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local replies = {}
for i, key in ipairs(KEYS) do
  local quota, permits, length = ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
  local cost = (ARGV[3 * #KEYS + i] or 1) + 0
  local text, since, count, previous, reply = redis.pcall('GET', key), now, 0, 0, false
  if text then
    local found, middle, taken, before =
      string.match(type(text) == 'string' and text or '', '^(%d+)( %d+ %d+ )(%d+) (%d+)$')
    since = middle == quota and #found == 16 and found + 0 or math.huge
    if since + length <= now then
      since, count, previous = since + length, 0, taken + 0
    elseif since <= now then
      count, previous = taken + 0, before + 0
    end
    if since + length <= now or count + previous == 0 and since <= now then
      since, previous = now, 0
    end
  end
  local is_own = since <= now and math.max(count, previous) * length <= 2 ^ 53
  local counted = is_own and count + math.ceil(previous * (since + length - now) / length)
  if is_own and counted + cost <= permits then
    local written, reset = string.format('%d%s%d %d', since, quota, count + cost, previous), since + 2 * length - now
    local set = redis.pcall('SET', key, written, 'PX', math.ceil(reset / 1000) + 1)
    reply = set.err and 'SET: ' .. set.err or { 1, reset, permits - counted - cost }
  elseif is_own then
    -- The permits of the window before fade until the cost fits, or in the next window those of this one.
    local fading, excess, from = previous, count + previous + cost - permits, since
    if count + cost > permits then
      fading, excess, from = count, count + cost - permits, since + length
    end
    local wait = cost > permits and -1 or from + math.ceil(excess * length / fading) - now
    local reset = count + previous == 0 and 0 or since + (count > 0 and 2 or 1) * length - now
    reply = { 0, reset, math.max(permits - counted, 0), wait }
  end
  replies[i] = reply
end
if #KEYS == 1 then
  return replies[1]
end
return replies
