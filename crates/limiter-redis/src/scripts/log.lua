-- Script  log: checks keys by sub-windows or an exact log, each on its own, reserves, or peeks.
--
-- State   a list: the newest entry, `at count total slot span horizon`, then the older ones, `at count total`, from the
--         oldest on. Permits of one slot share an entry: when the last of them was taken, how many they are, and the
--         total up to it since the list began. They count for a span from the slot's start. Behind the newest are the
--         slot, the longest span and the longest horizon of the quotas that wrote the list; the slot is 1 if these
--         differ, as that of a log is. In microseconds, times in Unix time
-- KEYS    the keys, of which some may be the same
-- ARGV    for each key: `loose` if the span is the window alone, else `strict`; the quota, ` slot span horizon`; its
--         permits; into how many slots a paced window spreads them, else 0; then the cost for each key, 0 to peek;
--         for a reservation of one key, within how many microseconds. Without costs, each is 1
-- Reply   for each key, alone if there is one: { the time until it is fresh, the permits left } after an admission, and
--         for a reservation its delay, now, and how far from now its entry is; { 0, the wait or -1 for ever, and the
--         first two } after a refusal, and a text last if a lost expiry was not restored. A text alone is why the key
--         was not checked
-- Costs   TIME, and for each key LRANGE, and LINDEX for each step of a search behind the second entry; if admitted
--         LSET, PEXPIRE, RPUSH in a new slot and LTRIM if entries no longer count; else PTTL

-- include clock

-- include restore_expiry

-- include log

-- include log_take

-- Writes a log. Returns the error if its expiry can't be set: then a new key is deleted.
local function write(log, key, is_new)
  if is_new then
    redis.call('RPUSH', key, log_head(log))
  else
    if log.dropped ~= 0 then
      redis.call('LTRIM', key, log.dropped, -1)
    end
    redis.call('LSET', key, 0, log_head(log))
  end
  if log.older then
    redis.call('RPUSH', key, log.older)
  end
  local reply = redis.pcall('PEXPIRE', key, math.ceil((log_end(log, log, log.at) - now) / 1000) + 1)
  if is_new and type(reply) == 'table' then
    redis.call('DEL', key)
  end
  return type(reply) == 'table' and 'PEXPIRE: ' .. reply.err or nil
end

-- Checks one key, and returns its reply.
local function check(key, limit, cost, within)
  local log = redis.pcall('LRANGE', key, 0, 2)
  if log.err then
    return 'LRANGE: ' .. log.err
  end
  local is_new = not log[1]
  log.key = log[3] and key
  log = log_read(log, limit)
  local fits, failed = log_fits(log, limit, cost, now), nil
  local is_admitted = cost > 0 and fits <= now + (within or 0)
  if is_admitted then
    log_charge(log, limit, cost, fits)
  end
  local reset, remaining = log_usage(log, limit)
  if is_admitted or log.is_impossible then
    failed = write(log, key, is_new)
  elseif not is_new then
    failed = restore_expiry(key, math.max(log_end(log, log, log.at) - now, 0))
  end
  if is_admitted then
    return failed or { reset, remaining, within and fits - now, within and now, within and log.at - now }
  end
  return { 0, fits < math.huge and fits - now or -1, reset, remaining, failed }
end

local replies = {}
for i, key in ipairs(KEYS) do
  local limit = { kind = ARGV[4 * i - 3], quota = ARGV[4 * i - 2], most = ARGV[4 * i - 1] + 0, number = ARGV[4 * i] + 0 }
  local cost, within = (ARGV[4 * #KEYS + i] or 1) + 0, tonumber(ARGV[5 * #KEYS + 1])
  replies[i] = check(key, limit, cost, within)
end
return #KEYS == 1 and replies[1] or replies
