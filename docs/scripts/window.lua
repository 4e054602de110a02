-- Script  window: checks keys by fixed or aligned windows, or peeks at them. Each key is decided on its own.
--
-- State   `end length reach count`, in microseconds: the Unix time at which the window ends, its length, how far ahead
--         of now the quota can set the end, and the permits taken in the window. No key: no permits taken.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: `fixed` if a window begins with its first permit, or `aligned` if windows begin at multiples of
--         their length in Unix time; the quota as the state has it, ` length reach `; the permits; the length. Then for
--         each key the cost, 0 to peek. Without costs, each cost is 1.
--         Then, for leases, for each key the permits that are wanted, 0 without a lease; then the room that is little.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { reset, left }             admitted; the time until the key is fresh, and the permits left
--         { ..., permits, now, mark } the same if a lease was wanted: how many permits were charged, more than the cost for
--                                     a lease; when, in microseconds of Unix time; and the time until the window ends
--         { 0, wait, reset, left }    refused, or a peek; a wait of -1 is for ever
--         { 0, ..., text }            the error of PTTL or PEXPIRE, so that a lost expiry was not restored
--         text                        the error of GET; nothing is charged
-- Costs   TIME; for each key GET, then SET if admitted or damaged, else PTTL

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Returns how many permits to charge for a check that may become a lease: of those that are wanted, as many as there are
-- in half of the room, or in all of it if it is little; at least the cost.
local function granted(cost, wanted, room, little)
  if room > little then
    room = math.floor(room / 2)
  end
  return math.max(cost, math.min(wanted, room))
end

-- Returns when a window ends that opens at a moment.
local function window_end(kind, at, length)
  return at + length - (kind == 'aligned' and at % length or 0)
end

-- Returns the end, the length and the count of a window of any quota, zeros if it has ended. A window that is damaged or
-- from the future is full, and the fourth result is the text of its quota.
local function read_other(text, kind, quota, most, length)
  local ends, old_length, reach, count = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
  local has_length = ends and #ends == 16
  ends, old_length, reach, count = tonumber(ends), tonumber(old_length), tonumber(reach), tonumber(count)
  if not has_length or old_length < 1000 or old_length > math.min(reach, 31622400000000) or reach > 189734400000000
    or count > 158112000000000 then
    ends, old_length, reach, count = math.huge, length, string.match(quota, '(%d+) $') + 0, 0
  end
  if ends > now + reach then
    -- The present aligned window may be about to end, so the next one is full too.
    ends = window_end(kind, now, old_length) + (kind == 'aligned' and old_length or 0)
    return ends, old_length, math.max(count, most), string.format(' %d %d ', old_length, math.max(reach, ends - now))
  elseif (count > 0 and ends or ends - old_length) <= now then
    return 0, 0, 0
  end
  return ends, old_length, count
end

local replies = {}
for i, key in ipairs(KEYS) do
  local kind, quota, most, length = ARGV[4 * i - 3], ARGV[4 * i - 2], ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0
  local cost = (ARGV[4 * #KEYS + i] or 1) + 0
  local text, ends, old_length, count, replaced = redis.pcall('GET', key), 0, length, 0, nil
  if type(text) == 'string' and string.sub(text, 17, 16 + #quota) == quota then
    ends, count = tonumber(string.sub(text, 1, 16)), tonumber(string.sub(text, 17 + #quota))
  end
  if type(text) == 'string' and not (ends and count and ends > now and ends <= now + length and count > 0) then
    ends, old_length, count, replaced = read_other(text, kind, quota, most, length)
  end
  local reply, written, lasts
  if type(text) == 'table' then
    reply = 'GET: ' .. text.err
  elseif cost > 0 and count + cost <= most and ends - old_length <= now then
    -- The permits of a window of another length are carried into a new window.
    ends = count > 0 and old_length == length and ends or window_end(kind, now, length)
    local wanted = (ARGV[5 * #KEYS + i] or 0) + 0
    local permits = wanted > 0 and granted(cost, wanted, most - count, ARGV[6 * #KEYS + i] + 0) or cost
    count = count + permits
    reply, lasts = { ends - now, most - count }, ends - now
    if wanted > 0 then
      reply[3], reply[4], reply[5] = permits, now, ends - now
    end
    written = string.format('%d%s%d', ends, quota, count)
  else
    local begins = ends - old_length
    local wait = cost > most and -1 or math.max((count + cost > most and ends or begins) - now, 0)
    local left = begins <= now and math.max(most - count, 0) or 0
    lasts = math.max((count > 0 and ends or begins) - now, 0)
    reply, written = { 0, wait, lasts, left }, replaced and string.format('%d%s%d', ends, replaced, count)
  end
  if written then
    redis.call('SET', key, written, 'PX', math.ceil(lasts / 1000) + 1)
  elseif type(text) == 'string' then
    local command, ttl = 'PTTL', redis.pcall('PTTL', key)
    if ttl == -1 then
      command, ttl = 'PEXPIRE', redis.pcall('PEXPIRE', key, math.ceil(lasts / 1000) + 1)
    end
    reply[5] = type(ttl) == 'table' and command .. ': ' .. ttl.err or nil
  end
  replies[i] = reply
end
return #KEYS == 1 and replies[1] or replies
