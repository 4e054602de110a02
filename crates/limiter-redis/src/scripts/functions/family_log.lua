-- Adds a quota to the writers. One of the same slots joins it, and a fifth one the last.
local function add_writer(log, writer)
  for n, other in ipairs(log.writers) do
    local is_same = other.slot == writer.slot and other.span == writer.span
    if is_same or n == 4 then
      -- Slots of two lengths share no grid.
      log.writers[n] = { slot = is_same and other.slot or 1, span = math.max(other.span, writer.span),
        horizon = math.max(other.horizon, writer.horizon), newest = math.max(other.newest, writer.newest) }
      return
    end
  end
  log.writers[#log.writers + 1] = writer
end

-- Reads the log. One that is damaged or from the future is full, for the longest span.
local function read(limit)
  local slot, span, horizon = string.match(limit.quota, '(%d+) (%d+) (%d+)')
  limit.slot, limit.span, limit.horizon = slot + 0, span + 0, horizon + 0
  local log, damaged
  if limit.text then
    log, damaged = log_open(limit.key, limit.text)
  end
  if limit.text and not log then
    local length = redis.call('LLEN', limit.key) - 1
    log = { key = limit.key, writers = damaged and damaged.writers or {}, older = {}, length = length, dropped = length }
    -- A loose window counts the present slot for less than a whole window.
    local at = now + (limit.kind == 'loose' and -now % limit.slot or 0)
    for _, writer in ipairs(log.writers) do
      writer.newest = at
    end
    add_writer(log, { slot = limit.slot, span = limit.span, horizon = math.max(limit.horizon, at - now), newest = at })
    log.newest = { at = at, count = math.max(damaged and damaged.total or 0, limit.permits) }
    log.total, log.largest, limit.is_damaged = log.newest.count, 0, true
  end
  log = log or { key = limit.key, older = {}, length = 0, dropped = 0, is_absent = true, newest = { at = 0 }, writers = {} }
  for n = #log.writers, 1, -1 do
    local writer = log.writers[n]
    if #log.writers > 1 and writer.newest - writer.newest % writer.slot + writer.span <= now then
      table.remove(log.writers, n)
    end
  end
  if log_over(log, log.newest.at) <= now then
    log.newest, log.total, log.largest, log.writers = { at = 0, count = 0 }, 0, 0, {}
  end
  limit.log, limit.counts_all = log, true
  for _, writer in ipairs(log.writers) do
    local is_own = writer.slot == limit.slot and writer.span == limit.span
    limit.counts_all = limit.counts_all and (is_own or limit.slot == 1 and writer.span <= limit.span)
  end
end

-- Returns how many permits count after a moment that were taken at `since` or later; if there are more than `most`, not
-- all of them, and the end of the entry with which they are more.
local function counted(limit, from, since, most)
  local log, sum = limit.log, 0
  if since == 0 and limit.counts_all and log.total <= most then
    return log.total, from
  end
  for n = log.length + 1, log.dropped + 1, -1 do
    local entry = log_entry(log, n)
    local ends = log_end(limit, entry)
    if entry.at < since or ends <= from then
      break
    end
    sum = sum + entry.count
    if sum > most then
      return sum, ends
    end
  end
  return sum, from
end

-- Returns the first moment from `from` on at which at most `room` of the permits count.
local function fits_within(limit, room, from)
  local log, sum, n = limit.log, limit.log.total, limit.log.dropped
  if sum - room > room then
    return select(2, counted(limit, from, 0, room))
  end
  -- Fewer permits have to end than may stay.
  while sum > room and n <= log.length do
    n = n + 1
    sum, from = sum - log_entry(log, n).count, math.max(from, log_end(limit, log_entry(log, n)))
  end
  return from
end

-- Returns how many permits a paced window admits in a slot with this number.
local function ceiling(limit, number)
  local even, rest, within = math.floor(limit.permits / limit.number), limit.permits % limit.number, number % limit.number
  return even + math.floor(rest * (within + 1) / limit.number) - math.floor(rest * within / limit.number)
end

local function fits(limit, from)
  local slots, cost, newest = math.max(limit.number, 1), limit.cost, limit.log.newest.at
  local even, rest = math.floor(limit.permits / slots), limit.permits % slots
  if cost > even + (rest > 0 and 1 or 0) then
    return math.huge
  end
  -- Not before the slot of the last reservation.
  local at = fits_within(limit, limit.permits - cost, math.max(from, newest - newest % limit.slot))
  if limit.number > 0 then
    local number, ends = math.floor(at / limit.slot), math.huge
    if ceiling(limit, number) >= cost then
      ends = select(2, counted(limit, at, number * limit.slot, ceiling(limit, number) - cost))
    end
    if ends < (number + 1) * limit.slot then
      return ends
    end
    number = number + 1
    if cost > even then
      -- `rest` of every `slots` slots admit one permit more, spread evenly. This is the next of them.
      local within = number % slots
      number = number - within + math.ceil((math.floor(within * rest / slots) + 1) * slots / rest) - 1
    end
    at = number * limit.slot
  end
  return at
end

-- Charges in the newest entry if both are in one slot of all writers, or begins another one. Of a log that several quotas
-- have charged, the oldest permits are dropped that none of them has to find. Reserved ones may come back, and so do not
-- stand for others.
local function charge(limit, at)
  local log, newest = limit.log, limit.log.newest
  log.largest = math.max(log.largest, limit.permits)
  if #log.writers > 1 then
    local past = log.total
    for n = log.length + 1, log.dropped + 1, -1 do
      local entry = log_entry(log, n)
      past = entry.at > now and past - entry.count or past
      if entry.at <= now then
        break
      end
    end
    while log.dropped < log.length and log_entry(log, log.dropped + 1).at <= now
      and past - log_entry(log, log.dropped + 1).count >= log.largest do
      log.dropped = log.dropped + 1
      past, log.total = past - log_entry(log, log.dropped).count, log.total - log_entry(log, log.dropped).count
    end
  end
  add_writer(log, { slot = limit.slot, span = limit.span, horizon = limit.horizon, newest = at })
  for _, writer in ipairs(log.writers) do
    if newest.at - newest.at % writer.slot < at - at % writer.slot then
      log.pushed, log.newest = newest.at > 0 and newest or nil, { at = at, count = 0 }
    end
  end
  if log.pushed then
    log.length = log.length + 1
    log.older[log.length] = log.pushed
  end
  log.newest = { at = math.max(log.newest.at, at), count = log.newest.count + limit.cost }
  log.total = log.total + limit.cost
  return log.newest.at - now
end

local function usage(limit)
  local newest, number = limit.log.newest.at, math.floor(now / limit.slot)
  local left = limit.permits - counted(limit, now, 0, limit.permits)
  if limit.number > 0 then
    left = math.min(left, ceiling(limit, number) - counted(limit, now, number * limit.slot, limit.permits))
  end
  local has_begun = newest - newest % limit.slot <= now
  return math.max(log_end(limit, limit.log.newest) - now, 0), has_begun and math.max(left, 0) or 0
end

-- Writes the log, first what a full memory refuses. Returns the error of the first write.
local function write(limit)
  local log = limit.log
  local expiry = math.ceil((log_over(log, log.newest.at) - now) / 1000) + 1
  if log.is_absent then
    local pushed = redis.pcall('RPUSH', log.key, log_head(log))
    local expires = type(pushed) == 'number' and redis.pcall('PEXPIRE', log.key, expiry)
    -- No key stays without an expiry.
    if type(expires) == 'table' then
      redis.call('LTRIM', log.key, 1, 0)
      return 'PEXPIRE: ' .. expires.err
    end
    return type(pushed) == 'table' and 'RPUSH: ' .. pushed.err or nil
  end
  -- The last element that has ended becomes element 0.
  local set = redis.pcall('LSET', log.key, log.dropped, log_head(log))
  if set.err then
    return 'LSET: ' .. set.err
  end
  if log.pushed then
    redis.call('RPUSH', log.key, string.format('%d %d', log.pushed.at, log.pushed.count))
  end
  if log.dropped > 0 then
    redis.call('LTRIM', log.key, log.dropped, -1)
  end
  redis.call('PEXPIRE', log.key, expiry)
end

-- Any number until more than the permits count. A total stays far below the largest one that is read.
local function most(limit)
  local newest, room = limit.log.newest.at, limit.permits - counted(limit, now, 0, limit.permits)
  local has_begun = newest - newest % limit.slot <= now
  return has_begun and room >= 0 and math.max(room, 1e14 - limit.log.total) or 0
end

return { read = read, fits = fits, most = most, charge = charge, usage = usage, write = write }
