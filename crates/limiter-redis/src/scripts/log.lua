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
--         first two } after a refusal; and a text last if an expiry was not set. A text alone is why the key was not
--         checked
-- Costs   TIME, and for each key LRANGE, twice if three entries are over, then LINDEX for each step of a search; if
--         admitted LSET, PEXPIRE, RPUSH in a new slot and LTRIM if entries are over, else PTTL

-- include clock

-- include restore_expiry

-- Checks a list that is new, paced, reserved, over, of another quota or damaged, or that has to be searched.
local function check_other(key, log, limit, cost, within)
  -- include log

  -- include log_take

  local is_new, failed = not log[1], nil
  log.key = log[4] and key
  log = log_read(log, limit)
  local fits = log_fits(log, limit, cost, now)
  local is_admitted = cost > 0 and fits <= now + (within or 0)
  if is_admitted then
    log_charge(log, limit, cost, fits)
  end
  local reset, left = log_usage(log, limit)
  if is_new and is_admitted then
    redis.call('RPUSH', key, log_head(log))
  elseif is_admitted or log.is_impossible then
    redis.call('LTRIM', key, log.dropped, -1)
    redis.call('LSET', key, 0, log_head(log))
  elseif not is_new then
    failed = restore_expiry(key, math.max(log_end(log, log, log.at) - now, 0))
  end
  if log.older then
    redis.call('RPUSH', key, log.older)
  end
  if is_admitted or log.is_impossible then
    local reply = redis.pcall('PEXPIRE', key, math.ceil((log_end(log, log, log.at) - now) / 1000) + 1)
    failed = type(reply) == 'table' and 'PEXPIRE: ' .. reply.err or nil
  end
  if is_new and failed then
    redis.call('DEL', key)
    return failed
  elseif is_admitted and within then
    return { reset, left, fits - now, now, log.at - now, failed }
  end
  return is_admitted and { reset, left, failed } or { 0, fits < math.huge and fits - now or -1, reset, left, failed }
end

local replies = {}
for i, key in ipairs(KEYS) do
  local quota, most, pace = ARGV[4 * i - 2], ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0
  local cost, within = (ARGV[4 * #KEYS + i] or 1) + 0, tonumber(ARGV[5 * #KEYS + 1])
  local log, reply = redis.pcall('LRANGE', key, 0, 3), nil
  local at, count, total, writer = string.match(log[1] or '', '^(%d+) (%d+) (%d+)( %d+ %d+ %d+)$')
  if writer == quota and #at == 16 and pace == 0 and not within then
    local slot, span = string.match(quota, '(%d+) (%d+)')
    at, count, total, slot, span = at + 0, count + 0, total + 0, slot + 0, span + 0
    -- The oldest entry that counts: one of the first 63, or the newest if there is no other.
    local n, first, first_count, first_total, over = 1, nil, nil, nil, nil
    repeat
      n = n + 1
      if n == 5 then
        for i, element in ipairs(redis.call('LRANGE', key, 4, 63)) do
          log[4 + i] = element
        end
      end
      first, first_count, first_total = string.match(log[n] or '', '^(%d+) (%d+) (%d+)$')
      first = first and first + 0 <= at and first_total + 0 <= total - count and first
      over = first and first - first % slot + span or math.huge
    until over > now
    if n < 65 and not log[n] then
      first, first_count, first_total, over = at, count, total, at - at % slot + span
    end
    local counted = first and at <= now and over > now and total - first_total + first_count
    local ends = now - now % slot + span
    if counted and cost > 0 and counted + cost <= most then
      local older = at < now - now % slot and string.format('%d %d %d', at, count, total)
      if n > 2 then
        redis.call('LTRIM', key, n - 2, -1)
      end
      redis.call('LSET', key, 0, string.format('%d %d %d', now, older and cost or count + cost, total + cost) .. quota)
      if older then
        redis.call('RPUSH', key, older)
      end
      local expiry = redis.pcall('PEXPIRE', key, math.ceil((ends - now) / 1000) + 1)
      reply = { ends - now, most - counted - cost, type(expiry) == 'table' and 'PEXPIRE: ' .. expiry.err or nil }
    elseif counted and cost <= most and counted - first_count + cost <= most then
      ends = at - at % slot + span
      reply = { 0, over - now, ends - now, math.max(most - counted, 0), restore_expiry(key, ends - now) }
    end
  end
  if log.err then
    reply = 'LRANGE: ' .. log.err
  elseif not reply then
    local limit = { kind = ARGV[4 * i - 3], quota = quota, most = most, number = pace }
    reply = check_other(key, log, limit, cost, within)
  end
  replies[i] = reply
end
return #KEYS == 1 and replies[1] or replies
