-- Logs: the newest entry, and the older ones of the list, which are read as needed. The quotas of different spans that
-- have charged the key are its writers, up to four.

-- Returns when permits that were taken at a moment do not count any more: for each of the writers.
local function log_over(log, at)
  local over = 0
  for _, writer in ipairs(log.writers) do
    local last = math.min(at, writer.newest)
    over = math.max(over, last - last % writer.slot + writer.span)
  end
  return over
end

-- Returns when an entry does not count any more for a quota.
local function log_end(limit, entry)
  return math.min(entry.at - entry.at % limit.slot + limit.span, log_over(limit.log, entry.at))
end

-- Returns the n-th of the older entries, and behind them the newest. A damaged one ends with the newest, and frees nothing.
local function log_entry(log, n)
  if n > log.length then
    return log.newest
  end
  if not log.older[n] then
    local first = n - (n - 1) % 64
    for place, element in ipairs(redis.call('LRANGE', log.key, first, first + 63)) do
      local at, count = string.match(element, '^(%d+) (%d+)$')
      log.older[first + place - 1] = { at = at and #at == 16 and math.min(at, log.newest.at) or log.newest.at,
        count = at and #at == 16 and count + 0 or 0 }
    end
  end
  return log.older[n]
end

-- Returns element 0. The only writer has charged the newest entry.
local function log_head(log)
  local text = string.format('%d %d %d %d', log.newest.at, log.newest.count, log.total, log.largest)
  for _, writer in ipairs(log.writers) do
    if #log.writers == 1 then
      return string.format('%s %d %d %d', text, writer.slot, writer.span, writer.horizon)
    end
    text = string.format('%s, %d %d %d %d', text, writer.slot, writer.span, writer.horizon, writer.newest)
  end
  return text
end

-- Returns the log of element 0, nil if no quota can have left it.
local function log_parse(head)
  local numbers, log = {}, { writers = {} }
  for number in string.gmatch(head, '%d+') do
    numbers[#numbers + 1] = number + 0
  end
  log.newest, log.total, log.largest = { at = numbers[1], count = numbers[2] }, numbers[3], numbers[4]
  for n = 5, #numbers, 4 do
    local slot, span, horizon, newest = numbers[n], numbers[n + 1], numbers[n + 2], numbers[n + 3] or numbers[1]
    if slot == 0 or not horizon or slot > span or span > 64000000000000 or horizon > 158112000000000 then
      return nil
    end
    log.writers[#log.writers + 1] = { slot = slot, span = span, horizon = horizon, newest = newest }
  end
  local is_valid = numbers[7] and numbers[1] >= 1e15 and numbers[1] < 1e16 and #log.writers <= 4 and numbers[2] <= numbers[3]
    and math.max(numbers[3], numbers[4]) <= 2 ^ 53
  return is_valid and log_head(log) == head and log or nil
end

-- Returns the log of a list with this element 0, of which the `dropped` oldest elements behind it have ended; nil if it is
-- damaged or from the future.
local function log_open(key, head)
  local log, reach = log_parse(head), 0
  for _, writer in ipairs(log and log.writers or {}) do
    reach = math.max(reach, writer.horizon, writer.slot)
  end
  if not log or log.newest.at > now + reach then
    return nil, log
  end
  log.key, log.older, log.length = key, {}, redis.call('LLEN', key) - 1
  -- How many have ended is found by doubling a step, and then by bisection.
  local low, step = 0, 1
  while low + step <= log.length and log_over(log, log_entry(log, low + step).at) <= now do
    low, step = low + step, step * 2
  end
  while step > 1 do
    step = step / 2
    if low + step <= log.length and log_over(log, log_entry(log, low + step).at) <= now then
      low = low + step
    end
  end
  log.dropped = low
  -- Those that have ended are subtracted, or the others added up, whichever are fewer.
  if low * 2 < log.length then
    for n = 1, low do
      log.total = math.max(log.total - log_entry(log, n).count, log.newest.count)
    end
    return log
  end
  log.total = log.newest.count
  for n = low + 1, log.length do
    log.total = log.total + log_entry(log, n).count
  end
  return log
end
