-- Script  counter: checks keys by sliding counters, or peeks at them. Each key is decided on its own.
--
-- State   `end length reach count previous`, in microseconds: the Unix time at which the present window ends, its
--         length, how far ahead of now the quota can set the end, the permits taken in the window, and those taken in
--         the window before, which fade. No key: no permits taken.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: the quota as the state has it, ` length reach `; the permits; the length. Then for each key the
--         cost, 0 to peek. Without costs, each cost is 1.
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

-- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
local function scaled(a, b, c)
  if a * b <= 2 ^ 53 then
    return math.ceil(a * b / c)
  end
  -- Long division, four bits of b at a time, so that no product reaches 2^53.
  local quotient, rest = 0, 0
  for digit = 11, 0, -1 do
    rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
    quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
  end
  return rest > 0 and quotient + 1 or quotient
end

-- Returns how many permits to charge for a check that may become a lease: of those that are wanted, as many as there are
-- in half of the room, or in all of it if it is little; at least the cost.
local function granted(cost, wanted, room, little)
  if room > little then
    room = math.floor(room / 2)
  end
  return math.max(cost, math.min(wanted, room))
end

-- Returns the present window of a state: its end, length, count and the count before, zeros if nothing counts. A window
-- that is damaged or from the future is full, and the fifth result is its reach.
local function read(text, quota, most, length)
  local ends, old_length, reach, count, previous = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  local has_length = ends and #ends == 16
  ends, old_length, reach = tonumber(ends), tonumber(old_length), tonumber(reach)
  count, previous = tonumber(count), tonumber(previous)
  if not has_length or old_length < 1000 or old_length > math.min(reach, 31622400000000) or reach > 189734400000000
    or math.max(count, previous) > 158112000000000 then
    ends, old_length, reach, count, previous = math.huge, length, string.match(quota, '(%d+) $') + 0, 0, 0
  end
  if ends > now + reach then
    return now + old_length, old_length, math.max(count + previous, most), 0, reach
  elseif ends <= now then
    ends, count, previous = ends + old_length, 0, count
  end
  if (count + previous > 0 and ends or ends - old_length) <= now then
    return 0, 0, 0, 0
  end
  return ends, old_length, count, previous
end

local replies = {}
for i, key in ipairs(KEYS) do
  local quota, most, length = ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
  local cost = (ARGV[3 * #KEYS + i] or 1) + 0
  local text, ends, old_length, count, previous, reach = redis.pcall('GET', key), 0, 0, 0, 0, nil
  if type(text) == 'string' then
    ends, old_length, count, previous, reach = read(text, quota, most, length)
  end
  local counted = count + (previous > 0 and scaled(math.min(ends - now, old_length), previous, old_length) or 0)
  local reply, written, lasts
  if type(text) == 'table' then
    reply = 'GET: ' .. text.err
  elseif cost > 0 and counted + cost <= most and ends - old_length <= now then
    if old_length ~= length then
      -- The permits of a window of another length are carried into a new window.
      ends, count, previous = now + length, counted, 0
    end
    local wanted = (ARGV[4 * #KEYS + i] or 0) + 0
    local permits = wanted > 0 and granted(cost, wanted, most - counted, ARGV[5 * #KEYS + i] + 0) or cost
    reply, lasts = { ends + length - now, most - counted - permits }, ends + length - now
    if wanted > 0 then
      reply[3], reply[4], reply[5] = permits, now, ends - now
    end
    written = string.format('%d%s%d %d', ends, quota, count + permits, previous)
  else
    local begins, fits, over = ends - old_length, now, ends + (count > 0 and old_length or 0)
    if count > most - cost then
      -- In the next window, in which this one's permits fade.
      fits = ends + scaled(count - most + cost, old_length, count)
    elseif count + previous > most - cost then
      fits = begins + scaled(count + previous - most + cost, old_length, previous)
    end
    local wait = cost > most and -1 or math.max(fits - now, begins - now, 0)
    over = count + previous > 0 and over or begins
    lasts = math.max(over - now, 0)
    reply = { 0, wait, lasts, begins <= now and math.max(most - counted, 0) or 0 }
    written = reach and string.format('%d %d %d %d %d', ends, old_length, reach, count, previous)
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
