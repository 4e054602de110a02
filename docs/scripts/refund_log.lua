-- Script  refund_log: gives permits of one charge back to a key with one log.
--
-- State   that of the script log
-- KEYS    the key
-- ARGV    that of the script refund, for one limit
-- Reply   how many permits came back. Before the moment that the charge was made for, all of them or none. None if the
--         log has more than 1,000 later entries.
-- Costs   TIME, LRANGE and LLEN; LINDEX for each step of a binary search; if permits came back LINDEX and LSET for each
--         later entry, LSET and twice LTRIM, or DEL if none counts any more

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
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

-- Gives permits of a charge back to its entry, if no more than 1,000 entries are behind it and it has at least `least`.
-- Returns how many, and the number of the entry.
local function log_refund(log, limit, charge, least)
  local mark = charge.taken_at + charge.mark
  local entry, n = log_find(log, math.max(log.dropped, 0) + 1, function(entry) return entry.at >= mark end)
  if entry.at < mark or entry.at - entry.at % limit.slot ~= mark - mark % limit.slot or entry.count < least
    or log.length >= n + 1000 then
    return 0
  end
  local permits = math.min(charge.permits, entry.count)
  entry.count = entry.count - permits
  -- All totals from there on are lower.
  for later = n, log.length do
    log_entry(log, later).total = log_entry(log, later).total - permits
  end
  log.total = log.total - permits
  -- Nothing is behind an entry of which all came back.
  while log.count == 0 and log.length > log.dropped do
    local entry = log_entry(log, log.length)
    log.at, log.count, log.total, log.length = entry.at, entry.count, entry.total, log.length - 1
  end
  return permits, n
end

local kind, quota, most, number, permits, cost, taken_at, at, _, mark = unpack(ARGV)
local limit = { kind = kind, quota = quota, most = most + 0, number = number + 0 }
local charge = { permits = permits + 0, cost = cost + 0, taken_at = taken_at + 0, at = at + 0, mark = mark + 0 }
local key, is_early = KEYS[1], now < charge.at
-- Charged later than now: the clock has stepped back.
if now < charge.taken_at or is_early and charge.permits < charge.cost then
  return 0
end
local list = redis.call('LRANGE', key, 0, 2)
local log = log_read(table.remove(list, 1), list, limit, key)
if log.older ~= list then
  return 0
end
local permits, first = log_refund(log, limit, charge, is_early and charge.cost or 1)
if permits > 0 and log.count == 0 then
  redis.call('DEL', key)
elseif permits > 0 then
  -- Changes nothing, and fails before anything is written if the user may not call it.
  redis.call('LTRIM', key, 0, -1)
  for n = first, log.length do
    redis.call('LSET', key, n, log_element(log.older[n]))
  end
  -- The last ended entry becomes element 0.
  redis.call('LSET', key, log.dropped, log_head(log))
  redis.call('LTRIM', key, log.dropped, log.length)
end
return permits
