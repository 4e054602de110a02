-- Logs: element 0 of a list has the newest entry and the sum of all, `at count sum`; the elements behind it are the older
-- entries, `at count`, the oldest first. Permits of one slot share an entry: at is when the last of them was taken. They count
-- for a span from the start of the slot.

local function log_end(limit, at)
  return at - at % limit.number + limit.span
end

-- Returns the n-th entry, and whether it is the newest, behind all others. One that is damaged ends with the newest. A chunk of
-- the list is kept.
local function log_entry(limit, n)
  local chunk = limit.chunk
  if n < chunk.first or n > chunk.last and n <= limit.last then
    chunk = redis.call('LRANGE', limit.key, n, n + 63)
    chunk.first, chunk.last = n, n + #chunk - 1
    limit.chunk, limit.last = chunk, #chunk < 64 and chunk.last or limit.last
  end
  local element = chunk[n - chunk.first + 1]
  if not element then
    return limit.at, limit.count, true
  end
  local at, count = string.match(element, '^(%d+) (%d+)$')
  if not at or #at ~= 16 or #count > 15 then
    return limit.at, 0, false
  end
  return math.min(at, limit.at), count + 0, false
end

-- Reads the log, and returns the error of that. One that is damaged or too far ahead is full.
local function log_read(limit)
  local list = redis.pcall('LRANGE', limit.key, 0, 3)
  limit.at, limit.count, limit.sum = 0, 0, 0
  if list.err then
    return 'LRANGE: ' .. list.err
  end
  limit.past, limit.is_absent, limit.last = 0, not list[1], #list < 4 and #list - 1 or math.huge
  limit.chunk = { first = 1, last = #list - 1, unpack(list, 2) }
  if not list[1] then
    return nil
  end
  local at, count, sum = string.match(list[1], '^(%d+) (%d+) (%d+)$')
  limit.is_damaged = not at or #at ~= 16 or #sum > 15 or count + 0 > sum + 0 or at + 0 > now + limit.ahead
  if limit.is_damaged then
    -- A loose window counts the present slot for less than a whole window.
    limit.at = now + (limit.kind == 'loose' and -now % limit.number or 0)
    limit.count = math.max(sum and #sum <= 15 and sum + 0 or 0, limit.permits)
    limit.sum, limit.chunk, limit.last, limit.forgets_all = limit.count, { first = 1, last = 0 }, 0, true
    return nil
  end
  limit.at, limit.count, limit.sum = at + 0, count + 0, sum + 0
  if log_end(limit, limit.at) <= now then
    limit.count, limit.sum, limit.chunk, limit.last, limit.forgets_all = 0, 0, { first = 1, last = 0 }, 0, true
    return nil
  end
  local ended, permits = log_entry(limit, 1)
  while log_end(limit, ended) <= now do
    limit.past, limit.sum = limit.past + 1, math.max(limit.sum - permits, limit.count)
    ended, permits = log_entry(limit, limit.past + 1)
  end
end

-- Returns the first moment from one on at which a cost fits: not before the slot of the last reservation. Reads the entries
-- that have to end, or those that may stay, whichever have fewer permits.
local function log_fits(limit, cost, from)
  local room, sum, n = limit.permits - cost, limit.sum, limit.past
  from = math.max(from, limit.at - limit.at % limit.number)
  if room < 0 then
    return math.huge
  elseif sum - room > room then
    local stay, at, last, elements = limit.count, limit.at, 0, {}
    while stay <= room do
      if #elements == 0 then
        elements, last = redis.call('LRANGE', limit.key, last - 64, last - 1), last - 64
      end
      local element = table.remove(elements)
      local taken, count = string.match(element or '', '^(%d+) (%d+)$')
      at = taken and #taken == 16 and math.min(taken, at) or at
      stay = element and stay + (count and #count < 16 and count + 0 or 0) or math.huge
    end
    return math.max(from, log_end(limit, at))
  end
  while sum > room do
    n = n + 1
    local at, permits, is_newest = log_entry(limit, n)
    sum, from = is_newest and 0 or sum - permits, math.max(from, log_end(limit, at))
  end
  return from
end

-- Charges a cost for a moment, and returns the time of its entry.
local function log_charge(limit, cost, at)
  if limit.count > 0 and limit.at - limit.at % limit.number >= at - at % limit.number then
    limit.at, limit.count = math.max(limit.at, at), limit.count + cost
  else
    limit.pushed = limit.count > 0 and string.format('%d %d', limit.at, limit.count)
    limit.at, limit.count = at, cost
  end
  limit.sum = limit.sum + cost
  return limit.at
end

-- Returns how long the permits last, and how many are left.
local function log_usage(limit)
  local has_begun = limit.at - limit.at % limit.number <= now
  local reset = limit.count > 0 and log_end(limit, limit.at) - now or 0
  return reset, has_begun and math.max(limit.permits - limit.sum, 0) or 0
end

-- Writes the log, and returns the error of a command. A full memory refuses a script's first write alone.
local function log_write(limit)
  local key, head = limit.key, string.format('%d %d %d', limit.at, limit.count, limit.sum)
  local ttl, lasts = redis.call('PTTL', key), math.ceil((log_end(limit, limit.at) - now) / 1000) + 1
  if limit.is_absent then
    local pushed = redis.pcall('RPUSH', key, head)
    if type(pushed) == 'table' then
      return 'RPUSH: ' .. pushed.err
    end
  else
    -- The last element that is past becomes element 0.
    local set = redis.pcall('LSET', key, limit.past, head)
    if set.err then
      return 'LSET: ' .. set.err
    end
    if limit.past > 0 or limit.forgets_all then
      redis.call('LTRIM', key, limit.past, limit.forgets_all and 0 or -1)
    end
    if limit.pushed then
      redis.call('RPUSH', key, limit.pushed)
    end
  end
  local expires = ttl < lasts and redis.pcall('PEXPIRE', key, lasts + math.ceil(limit.span / 1000))
  if type(expires) == 'table' and limit.is_absent then
    redis.call('LTRIM', key, 1, 0)
  end
  return type(expires) == 'table' and 'PEXPIRE: ' .. expires.err or nil
end
