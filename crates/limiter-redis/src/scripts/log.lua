-- Script  log: checks keys by sub-windows or exact logs, reserves permits of a key, or peeks. Each key is decided on its
--         own.
--
-- State   a list. Element 0 is the newest entry, `at count total slot span horizon`; the elements behind it are the older
--         entries, `at count total`, the oldest first. Permits of one slot share an entry: at is when the last of them
--         was taken, count how many they are, and total how many were taken up to it since the list began. They count
--         for a span from the start of the slot. Slot, span and horizon are those of the quota that wrote the list, or if
--         several quotas did, 1 and the longest ones. In microseconds, at in Unix time. No key: no permits taken.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: `loose` if the span is the window alone, else `strict`; the quota as element 0 ends with it,
--         ` slot span horizon`; the permits; the number of slots that a paced window spreads them over, else 0. Then for
--         each key the cost, 0 to peek, and for a reservation of one key, within how many microseconds. Without costs,
--         each cost is 1.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { reset, left }                     admitted; the time until the key is fresh, and the permits left
--         { reset, left, delay, now, mark }   reserved; the entry is at now + mark
--         { 0, wait, reset, left }            refused, or a peek; a wait of -1 is for ever
--         { ..., text }                       the error of PTTL or PEXPIRE, so that the expiry is not set anew
--         text                                the error of LRANGE, or of PEXPIRE on a new key; nothing is charged
-- Costs   TIME; for each key LRANGE, and twice if three entries have ended, then LINDEX for each step of a search; if
--         admitted LSET and PEXPIRE, RPUSH in a new slot, and LTRIM if entries have ended; else PTTL

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
  elseif is_admitted or log.is_damaged then
    redis.call('LTRIM', key, log.dropped, -1)
    redis.call('LSET', key, 0, log_head(log))
  elseif not is_new then
    failed = restore_expiry(key, math.max(log_end(log, log, log.at) - now, 0))
  end
  if log.older then
    redis.call('RPUSH', key, log.older)
  end
  if is_admitted or log.is_damaged then
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
  if writer == quota and #at == 16 and #total <= 16 and pace == 0 and not within then
    local slot, span = string.match(quota, '(%d+) (%d+)')
    at, count, total, slot, span = at + 0, count + 0, total + 0, slot + 0, span + 0
    -- The oldest entry that counts: one of the first 63, or the newest if there is no other.
    local n, first, first_count, first_total, over = 1
    repeat
      n = n + 1
      if n == 5 then
        for n, element in ipairs(redis.call('LRANGE', key, 4, 63)) do
          log[4 + n] = element
        end
      end
      first, first_count, first_total = string.match(log[n] or '', '^(%d+) (%d+) (%d+)$')
      first = first and #first == 16 and first + 0 <= at and first_total + 0 <= total - count and first
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
        -- The last ended entry becomes element 0, which is written next.
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
      local wait = counted + cost > most and over - now or 0
      reply = { 0, wait, ends - now, math.max(most - counted, 0), restore_expiry(key, ends - now) }
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
