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

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Gives a key that has lost its expiry a new one. Returns the error of the command that failed, if any.
local function restore_expiry(key, micros)
  local command, ttl = 'PTTL', redis.pcall('PTTL', key)
  if ttl == -1 then
    command, ttl = 'PEXPIRE', redis.pcall('PEXPIRE', key, math.ceil(micros / 1000) + 1)
  end
  return type(ttl) == 'table' and command .. ': ' .. ttl.err or nil
end

-- Checks a list that is new, paced, reserved, over, of another quota or damaged, or that has to be searched.
local function check_other(key, log, limit, cost, within)
  -- A log is a table of elements, as a list at `log.key` has them: the newest entry, then the older ones from the oldest
  -- on. Those that are not here are read as needed.

  -- Returns an entry: when its last permit was taken, its permits, and the total of all up to it. They are numbered from
  -- the oldest on; behind the older ones is the newest. A damaged entry has the permits of the whole log, and the time of
  -- the newest entry.
  local function log_entry(log, n)
    if log[n + 1] == nil and log.key then
      log[n + 1] = redis.call('LINDEX', log.key, n)
    end
    if not log[n + 1] then
      return log.at, log.count, log.total
    end
    local at, count, total = string.match(log[n + 1], '^(%d+) (%d+) (%d+)$')
    if not at or #at ~= 16 or at + 0 > log.at or count + 0 > total + 0 or total + 0 > log.total - log.count then
      return log.at, log.total, log.total
    end
    return at + 0, count + 0, total + 0
  end

  -- Returns until when permits count that were taken at a moment: by a quota, and by those that wrote the log.
  local function log_end(log, limit, at)
    return math.min(at - at % limit.slot + limit.span, at - at % log.slot + log.span)
  end

  -- Returns the number of the first entry from the n-th on that was taken at `since` or later, counts after `moment` and
  -- has a total of at least `total`; else the number of the newest entry.
  local function log_find(log, limit, n, since, moment, total)
    local function is_found(n)
      local at, _, sum = log_entry(log, n)
      return not log[n + 1] or at >= since and sum >= total and log_end(log, limit, at) > moment
    end
    -- Mostly it is the first or the second one, so the steps double until one is found, and then halve.
    local low, high, step = n, math.huge, 0
    while low < high do
      local middle = high < math.huge and math.floor((low + high) / 2) or low + step
      if is_found(middle) then
        high = middle
      else
        low, step = middle + 1, 2 * step + 1
      end
    end
    return low
  end

  -- Returns a log that is fresh, in the place of all elements.
  local function log_fresh(limit)
    return { at = 0, count = 0, total = 0, slot = limit.slot, span = limit.span, horizon = 0, dropped = -1 }
  end

  -- Returns the log of elements, of which the `dropped` oldest have ended, or all if this is -1. A log that is damaged or
  -- from the future is full, for the longest span and with the most permits of it and of this quota.
  local function log_read(log, limit)
    local slot, span, horizon = string.match(limit.quota, '(%d+) (%d+) (%d+)')
    limit.slot, limit.span, limit.horizon = slot + 0, span + 0, horizon + 0
    if not log[1] then
      return log_fresh(limit)
    end
    local at, count, total, slot, span, horizon = string.match(log[1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    local has_length = at and #at == 16 and #total <= 16
    log.at, log.count, log.total = tonumber(at), tonumber(count), tonumber(total)
    log.slot, log.span, log.horizon = tonumber(slot), tonumber(span), tonumber(horizon)
    local is_readable = has_length and log.count <= log.total and log.slot > 0 and log.slot <= log.span
      and log.span <= 64000000000000 and log.horizon <= 158112000000000
    if not is_readable or log.at > now + math.max(log.horizon, log.slot) then
      local full, old = log_fresh(limit), is_readable and log or limit
      if is_readable then
        at, count, total = log_entry(log, 1)
      end
      -- A loose window counts the present slot for less than a whole window.
      full.at = now + (limit.kind == 'loose' and -now % limit.slot or 0)
      full.count = math.max(is_readable and log.total - total + count or 0, limit.most)
      full.slot = old.slot == limit.slot and old.span == limit.span and limit.slot or 1
      full.span, full.horizon = math.max(limit.span, old.span), math.max(limit.horizon, old.horizon, full.at - now)
      full.total, full.is_damaged = full.count, true
      return full
    elseif log_end(log, log, log.at) <= now then
      return log_fresh(limit)
    end
    log.dropped = log_find(log, log, 1, 0, now, 0) - 1
    return log
  end

  -- Returns the first element of a log.
  local function log_head(log)
    return string.format('%d %d %d %d %d %d', log.at, log.count, log.total, log.slot, log.span, log.horizon)
  end

  -- Returns how many permits count after a moment that were taken at `since` or later, and the number of their first entry.
  local function log_counted(log, limit, since, moment)
    local n = log_find(log, limit, 1, since, moment, 0)
    local at, count, total = log_entry(log, n)
    return at >= since and log_end(log, limit, at) > moment and log.total - total + count or 0, n
  end

  -- Returns the first moment from `from` on at which at most `room` of the permits count that were taken at `since` or later.
  local function log_room(log, limit, since, room, from)
    local counted, n = log_counted(log, limit, since, from)
    if counted <= room then
      return from
    end
    return math.max(from, log_end(log, limit, log_entry(log, log_find(log, limit, n, 0, 0, log.total - room))))
  end

  -- Returns how many permits a paced window admits in a slot with this number.
  local function log_ceiling(limit, number)
    local even, rest, within = math.floor(limit.most / limit.number), limit.most % limit.number, number % limit.number
    return even + math.floor(rest * (within + 1) / limit.number) - math.floor(rest * within / limit.number)
  end

  -- Returns from which moment on, `from` or later, a cost fits: math.huge for never.
  local function log_fits(log, limit, cost, from)
    local even, rest = math.floor(limit.most / math.max(limit.number, 1)), limit.most % math.max(limit.number, 1)
    if cost > even + (rest > 0 and 1 or 0) then
      return math.huge
    end
    -- Not before the slot of the last reservation.
    local fits = math.max(log_room(log, limit, 0, limit.most - cost, from), log.at - log.at % limit.slot)
    if limit.number > 0 then
      local number = math.floor(fits / limit.slot)
      local room = log_ceiling(limit, number) - cost
      fits = room < 0 and math.huge or log_room(log, limit, number * limit.slot, room, fits)
      if fits >= (number + 1) * limit.slot then
        number = number + 1
        if cost > even then
          -- `rest` of every `limit.number` slots admit one permit more, spread evenly. This is the next of them.
          local within = number % limit.number
          number = number - within + math.ceil((math.floor(within * rest / limit.number) + 1) * limit.number / rest) - 1
        end
        fits = number * limit.slot
      end
    end
    return fits
  end

  -- Returns how many permits are left now, if no later slot is in use.
  local function log_left(log, limit)
    local left, number = limit.most - log_counted(log, limit, 0, now), math.floor(now / limit.slot)
    if limit.number > 0 then
      left = math.min(left, log_ceiling(limit, number) - log_counted(log, limit, number * limit.slot, now))
    end
    return left
  end

  -- Charges a cost at a moment at which it fits. If that begins an entry, the newest one before becomes `older`. Returns
  -- the log, and the mark of the charge, which is the time until the entry.
  local function log_charge(log, limit, cost, at)
    log.left = log_left(log, limit) - cost
    -- Slots of two lengths share no grid.
    log.slot = log.slot == limit.slot and log.span == limit.span and limit.slot or 1
    log.span, log.horizon = math.max(log.span, limit.span), math.max(log.horizon, limit.horizon)
    if log.at > 0 and log.at - log.at % limit.slot < at - at % limit.slot then
      log.older, log.count = string.format('%d %d %d', log.at, log.count, log.total), 0
    end
    log.at, log.count, log.total = math.max(log.at, at), log.count + cost, log.total + cost
    return log, log.at - now
  end

  -- Returns the time until nothing counts, and the permits that remain.
  local function log_usage(log, limit)
    local left = log.left or log_left(log, limit)
    local has_begun = log.at - log.at % limit.slot <= now
    return math.max(log_end(log, limit, log.at) - now, 0), has_begun and math.max(left, 0) or 0
  end

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
