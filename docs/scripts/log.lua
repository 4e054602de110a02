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

-- Writes the newest entry of a log in place of element `place`, which becomes element 0, and pushes the one before it, if
-- any. Returns the error of the command that failed, if any; then what counts is what counted before: `replaced` is the
-- element at `place`, and `before` the first one. Each undo is by LSET, which the user may call if it is reached.
local function log_write(key, place, newest, replaced, before, pushed)
  local reply = redis.pcall('LSET', key, place, newest)
  if reply.err then
    return 'LSET: ' .. reply.err
  end
  if place ~= 0 then
    reply = redis.pcall('LTRIM', key, place, -1)
    if reply.err then
      redis.call('LSET', key, place, replaced)
      return 'LTRIM: ' .. reply.err
    end
  end
  reply = pushed and redis.pcall('RPUSH', key, pushed)
  if type(reply) == 'table' then
    redis.call('LSET', key, 0, before)
    return 'RPUSH: ' .. reply.err
  end
end

-- Checks a list of any kind. This takes twice as long as the lines for the usual one, which are below.
local function check_other(key, list, limit, cost, within)
  if list.err then
    return 'LRANGE: ' .. list.err
  end

  -- A log has its newest entry as numbers: when the last permit was taken, the permits, and the total up to it; and in
  -- `older` the `length` older entries, from the oldest on. Those of the list at `key` are read as needed.

  -- Returns the n-th of the older entries, and behind them the newest, which is the log. A damaged entry has the permits
  -- of the whole log, and the time of the newest entry.
  local function log_entry(log, n)
    if n > log.length then
      return log
    end
    log.older[n] = log.older[n] or redis.call('LINDEX', log.key, n)
    if type(log.older[n]) == 'string' then
      local at, count, total = string.match(log.older[n], '^(%d+) (%d+) (%d+)$')
      if not at or #at ~= 16 or at + 0 > log.at or count + 0 > total + 0 or total + 0 > log.total - log.count then
        at, count, total = log.at, log.total, log.total
      end
      log.older[n] = { at = at + 0, count = count + 0, total = total + 0 }
    end
    return log.older[n]
  end

  -- Returns the first entry from the n-th on that `is_found`, else the newest, and its number.
  local function log_find(log, n, is_found)
    local low, high = n, log.length + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if is_found(log_entry(log, middle)) then
        high = middle
      else
        low = middle + 1
      end
    end
    return log_entry(log, low), low
  end

  -- Returns until when permits count that were taken at a moment: by a quota, and by those that wrote the log.
  local function log_end(log, limit, at)
    return math.min(at - at % limit.slot + limit.span, at - at % log.slot + log.span)
  end

  -- Returns a log without permits, in the place of all entries.
  local function log_fresh(limit)
    return { at = 0, count = 0, total = 0, slot = limit.slot, span = limit.span, horizon = 0, older = {}, length = 0,
      dropped = -1 }
  end

  -- Returns the log of a list or of a text, of which the `dropped` oldest entries have ended, or all if this is -1. A log
  -- that is damaged or from the future is full, for the longest span and with the most permits of it and of this quota.
  local function log_read(first, older, limit, key)
    local slot, span, horizon = string.match(limit.quota, '(%d+) (%d+) (%d+)')
    limit.slot, limit.span, limit.horizon = slot + 0, span + 0, horizon + 0
    if not first then
      return log_fresh(limit)
    end
    local at, count, total, slot, span, horizon = string.match(first, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    local log = { at = tonumber(at), count = tonumber(count), total = tonumber(total), slot = tonumber(slot),
      span = tonumber(span), horizon = tonumber(horizon), older = older, key = key,
      length = key and redis.call('LLEN', key) - 1 or #older }
    local is_readable = at and #at == 16 and #total <= 16 and log.count <= log.total and log.slot > 0
      and log.slot <= log.span and log.span <= 64000000000000 and log.horizon <= 158112000000000
    if not is_readable or log.at > now + math.max(log.horizon, log.slot) then
      local full, old = log_fresh(limit), is_readable and log or limit
      local oldest = is_readable and log_entry(log, 1)
      -- A loose window counts the present slot for less than a whole window.
      full.at = now + (limit.kind == 'loose' and -now % limit.slot or 0)
      full.count = math.max(oldest and log.total - oldest.total + oldest.count or 0, limit.most)
      full.slot = old.slot == limit.slot and old.span == limit.span and limit.slot or 1
      full.span, full.horizon = math.max(limit.span, old.span), math.max(limit.horizon, old.horizon, full.at - now)
      full.total, full.is_damaged = full.count, true
      return full
    elseif log_end(log, log, log.at) <= now then
      return log_fresh(limit)
    end
    local _, oldest = log_find(log, 1, function(entry) return log_end(log, log, entry.at) > now end)
    log.dropped = oldest - 1
    return log
  end

  -- Returns the first element of a log.
  local function log_head(log)
    return string.format('%d %d %d %d %d %d', log.at, log.count, log.total, log.slot, log.span, log.horizon)
  end

  -- Returns an older entry as an element.
  local function log_element(entry)
    return type(entry) == 'table' and string.format('%d %d %d', entry.at, entry.count, entry.total) or entry
  end

  -- Returns how many permits count after a moment that were taken at `since` or later, and the number of their first entry.
  local function log_counted(log, limit, since, moment)
    local function counts(entry)
      return entry.at >= since and log_end(log, limit, entry.at) > moment
    end
    local first, n = log_find(log, 1, counts)
    return counts(first) and log.total - first.total + first.count or 0, n
  end

  -- Returns the first moment from `from` on at which at most `room` of the permits count that were taken at `since` or later.
  local function log_room(log, limit, since, room, from)
    local counted, n = log_counted(log, limit, since, from)
    if counted <= room then
      return from
    end
    local last = log_find(log, n, function(entry) return entry.total >= log.total - room end)
    return math.max(from, log_end(log, limit, last.at))
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

  -- Charges a cost at a moment at which it fits. If that begins an entry, the newest one before becomes the last of the
  -- older ones, whose element is `pushed`. Returns the log, and the mark of the charge, which is the time until the entry.
  local function log_charge(log, limit, cost, at)
    log.left = log_left(log, limit) - cost
    -- Slots of two lengths share no grid.
    log.slot = log.slot == limit.slot and log.span == limit.span and limit.slot or 1
    log.span, log.horizon = math.max(log.span, limit.span), math.max(log.horizon, limit.horizon)
    if log.at > 0 and log.at - log.at % limit.slot < at - at % limit.slot then
      log.pushed, log.count = log_element({ at = log.at, count = log.count, total = log.total }), 0
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
