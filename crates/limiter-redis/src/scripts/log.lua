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
--         text                                the error of another command, or of PEXPIRE on a new key; nothing is charged
-- Costs   TIME; for each key LRANGE, and twice if three entries have ended; if admitted LSET and PEXPIRE, RPUSH in a new
--         slot, and LTRIM if entries have ended; else PTTL. A check that is not a usual one takes LLEN too, LINDEX for
--         each step of a binary search, and among several keys LLEN and LINDEX once more

-- include clock

-- include restore_expiry

-- include log_write

-- Checks a list of any kind. This takes twice as long as the lines for the usual one, which are below.
local function check_other(key, list, limit, cost, within)
  if list.err then
    return 'LRANGE: ' .. list.err
  end

  -- include log

  -- include log_take

  local first, failed = table.remove(list, 1), nil
  if first and #KEYS > 1 then
    -- An error of these commands further down would end the script after other keys have been charged.
    local length, element = redis.pcall('LLEN', key), redis.pcall('LINDEX', key, 0)
    if type(length) == 'table' then
      return 'LLEN: ' .. length.err
    elseif type(element) == 'table' then
      return 'LINDEX: ' .. element.err
    end
  end
  local log = log_read(first, list, limit, first and key)
  -- If a charge fails, the repair of a damaged log stays.
  local before = log.is_damaged and log_head(log) or first
  local fits = log_fits(log, limit, cost, now)
  local is_admitted = cost > 0 and fits <= now + (within or 0)
  if is_admitted then
    log_charge(log, limit, cost, fits)
  end
  local reset, left = log_usage(log, limit)
  local lasts = math.max(log_end(log, log, log.at) - now, 0)
  if is_admitted and not first then
    local pushed = redis.pcall('RPUSH', key, log_head(log))
    failed = type(pushed) == 'table' and 'RPUSH: ' .. pushed.err or nil
  elseif is_admitted or log.is_damaged then
    -- The last ended entry becomes element 0.
    local replaced = log.dropped == 0 and first or redis.call('LINDEX', key, log.dropped)
    failed = log_write(key, log.dropped, log_head(log), replaced, before, log.pushed)
  end
  if failed then
    return failed
  elseif is_admitted or log.is_damaged then
    local expiry = redis.pcall('PEXPIRE', key, math.ceil(lasts / 1000) + 1)
    failed = type(expiry) == 'table' and 'PEXPIRE: ' .. expiry.err or nil
  elseif first then
    failed = restore_expiry(key, lasts)
  end
  -- An entry that can't be deleted again is a charge.
  if failed and not first and type(redis.pcall('DEL', key)) == 'number' then
    return failed
  elseif is_admitted and within then
    return { reset, left, fits - now, now, log.at - now, failed }
  end
  return is_admitted and { reset, left, failed } or { 0, fits < math.huge and fits - now or -1, reset, left, failed }
end

local replies = {}
for i, key in ipairs(KEYS) do
  local kind, quota, most, slots = unpack(ARGV, 4 * i - 3, 4 * i)
  local cost, within = (ARGV[4 * #KEYS + i] or 1) + 0, tonumber(ARGV[5 * #KEYS + 1])
  local list, slot, span = redis.pcall('LRANGE', key, 0, 3), string.match(quota, '(%d+) (%d+)')
  local newest, at, count, total, writer = string.match(list[1] or '', '^((%d+) (%d+) (%d+))( %d+ %d+ %d+)$')
  local is_own, reply = writer == quota and slots == '0' and not within, nil
  -- The oldest entry that counts, if it is one of the first 63 older ones, or the newest if there is no other.
  local n, first, first_count, first_total, ends = 1, nil, nil, nil, 0
  while is_own and n < 64 and ends <= now and list[n] do
    n = n + 1
    if n == 5 then
      for place, element in ipairs(redis.call('LRANGE', key, 4, 63)) do
        list[4 + place] = element
      end
    end
    first, first_count, first_total = string.match(list[n] or newest, '^(%d+) (%d+) (%d+)$')
    ends = first and first - first % slot + span or math.huge
  end
  -- Neither is damaged or from the future.
  if is_own and first and ends > now and #first == 16 and first <= at and at + 0 <= now and #total <= 16
    and count + 0 <= total + 0 and first_count + 0 <= first_total + 0 and (not list[n] or first_total + 0 <= total - count) then
    at, count, total, most = at + 0, count + 0, total + 0, most + 0
    local counted = total - first_total + first_count
    if cost > 0 and counted + cost <= most then
      local is_in_slot, reset = at >= now - now % slot, span - now % slot
      local head = string.format('%d %d %d', now, is_in_slot and count + cost or cost, total + cost) .. quota
      -- The last ended entry becomes element 0.
      reply = log_write(key, n - 2, head, list[n - 1], list[1], not is_in_slot and newest)
      if not reply then
        local expiry = redis.pcall('PEXPIRE', key, math.ceil(reset / 1000) + 1)
        reply = { reset, most - counted - cost, type(expiry) == 'table' and 'PEXPIRE: ' .. expiry.err or nil }
      end
    elseif cost <= most and counted - first_count + cost <= most then
      local wait, reset = counted + cost > most and ends - now or 0, at - at % slot + span - now
      reply = { 0, wait, reset, math.max(most - counted, 0), restore_expiry(key, reset) }
    end
  end
  if not reply then
    local limit = { kind = kind, quota = quota, most = most + 0, number = slots + 0 }
    reply = check_other(key, list, limit, cost, within)
  end
  replies[i] = reply
end
return #KEYS == 1 and replies[1] or replies
