-- Script  refund_log: gives permits of one charge back to a key with one log.
--
-- State   that of the script log
-- KEYS    the key
-- ARGV    that of the script refund, for one limit
-- Reply   how many permits came back. Before the moment that the charge was made for, all of them or none. None if the
--         log has more than 1,000 later entries.
-- Costs   TIME and LRANGE; LINDEX for each step of a search; if permits came back LINDEX and LSET for each later entry,
--         LTRIM and LSET, or DEL if none counts any more

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

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

-- Gives permits of a charge back to its entry, if no more than 1,000 entries are behind it and it has at least `least`.
-- Returns how many, the number of the entry, and how many of the older entries remain.
local function log_refund(log, limit, charge, least)
  local mark = charge.taken_at + charge.mark
  local n = log_find(log, limit, math.max(log.dropped, 0) + 1, mark, 0, 0)
  local at, count, total = log_entry(log, n)
  if at < mark or at - at % limit.slot ~= mark - mark % limit.slot or count < least then
    return 0
  end
  log_entry(log, n + 1000)
  if log[n + 1001] then
    return 0
  end
  local permits, last = math.min(charge.permits, count), n - 1
  if not log[n + 1] then
    log.count = count - permits
  end
  -- All totals from there on are lower.
  while log[last + 2] do
    last = last + 1
    log[last + 1] = string.format('%d %d %d', at, last == n and count - permits or count, total - permits)
    at, count, total = log_entry(log, last + 1)
  end
  log.total = log.total - permits
  -- Nothing is behind an entry of which all came back.
  while log.count == 0 and last > log.dropped do
    log.at, log.count, log.total = log_entry(log, last)
    log[last + 1], last = nil, last - 1
  end
  return permits, n, last
end

local kind, quota, most, number, permits, cost, taken_at, at, mark = unpack(ARGV)
local limit = { kind = kind, quota = quota, most = most + 0, number = number + 0 }
local charge = { permits = permits + 0, cost = cost + 0, taken_at = taken_at + 0, at = at + 0, mark = mark + 0 }
local key, is_early = KEYS[1], now < charge.at
-- Charged later than now: the clock has stepped back.
if now < charge.taken_at or is_early and charge.permits < charge.cost then
  return 0
end
local found = redis.call('LRANGE', key, 0, 2)
found.key = found[3] and key
local log = log_read(found, limit)
if log ~= found then
  return 0
end
local permits, first, last = log_refund(log, limit, charge, is_early and charge.cost or 1)
if permits > 0 and log.count == 0 then
  redis.call('DEL', key)
elseif permits > 0 then
  for n = first, last do
    redis.call('LSET', key, n, log[n + 1])
  end
  redis.call('LTRIM', key, log.dropped, last)
  redis.call('LSET', key, 0, log_head(log))
end
return permits
