-- Script  refund: gives permits of one charge back.
--
-- State   that of the script policy. Beside the key of a state by GCRA, another one has the latest end of its leases, in
--         microseconds of Unix time.
-- KEYS    the key of each limit, and then for each the key of the latest end, which only GCRA has
-- ARGV    the permits to give back; the cost of the charge; when it was made, and the moment that it was made for, in
--         microseconds of Unix time; how long it lasts if it is a lease by GCRA, else 0. Then for each limit its kind, quota,
--         permits and number, as for the script policy, and the mark of the charge.
-- Reply   how many permits came back: the most that came back to one of the limits. Before the moment that the charge was
--         made for, all permits come back to all limits, or none.
-- Costs   TIME; for each limit GET, and of GCRA two, or for a log LRANGE, LLEN and LRANGE for each step of a binary search;
--         if permits came back SET, or DEL if none counts any more; for a log LTRIM if entries have ended, LSET once or
--         twice, and LREM or LTRIM if an entry has no more permits
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local permits, cost, taken_at, at, length = unpack(ARGV, 1, 5)
permits, cost, taken_at, at, length = math.min(permits, cost), cost + 0, taken_at + 0, at + 0, length + 0

-- Each returns how many permits come back to a limit, whether that is the whole charge, and a function that writes the
-- state; nothing if the charge does not count any more.

local function refund_gcra(limit, latest_key)
  -- GCRA: a debt in ticks of the quota that wrote it, which drains at that quota's pace until another one charges.

  -- Reads a debt. One that is damaged or from the future is full.
  local function gcra_read(limit)
    local digits, decimals = string.gsub((limit.text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
    local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
    local scale, debt = decimals > 0 and 10000 or 1, not limit.text and 0 or nil
    increment, reach = tonumber(increment), tonumber(reach)
    limit.own_scale = string.find(limit.quota, '.', 1, true) and 10000 or 1
    -- All three numbers have decimals, or none.
    if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
      and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
      debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
    end
    limit.is_damaged = not debt or debt > 0 and debt > reach
    if debt and debt > 0 and string.match(limit.text, ' .*') ~= limit.quota then
      limit.debt, limit.increment, limit.scale = math.min(debt, reach), increment, scale
      limit.writer, limit.is_foreign = string.match(limit.text, ' .*'), true
    else
      limit.debt = limit.is_damaged and limit.permits * limit.number or debt
      limit.increment, limit.scale, limit.writer = limit.number, limit.own_scale, limit.quota
    end
  end

  -- Returns the state as text, and for how long it matters.
  local function gcra_text(limit)
    local debt, scale = limit.debt, limit.scale
    local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
    return string.format('%d', now + math.floor(debt / scale)) .. fraction .. limit.writer, math.ceil(debt / scale)
  end

  gcra_read(limit)
  if not limit.text or limit.is_damaged or limit.is_foreign then
    return 0
  end
  -- A lease that was granted since may be in the debt of the charge, so that drains until the lease ends.
  local ends = tonumber(redis.pcall('GET', latest_key)) or 0
  local drained = now < at and 0 or (math.max(now, ends - length) - at) * limit.scale
  local given = math.min(limit.number * permits, limit.number * cost - drained, limit.debt)
  if limit.debt > limit.permits * limit.number then
    -- Later reservations keep their moments, so what they need does not come back.
    local most = limit.number * math.min(permits, limit.permits)
    given = math.min(given, most - limit.debt + limit.mark - (now - taken_at) * limit.scale)
  end
  given = math.max(given, 0)
  return math.ceil(given / limit.number), given == limit.number * cost, function()
    limit.debt = limit.debt - given
    return gcra_text(limit)
  end
end

local function refund_window(limit)
  -- Windows: the permits taken in one window for each length that has charged the key, up to four. A charge counts in each
  -- of them, and a quota decides by the one of its own length. A window that is reserved follows the present one, which a
  -- refund of all that is reserved brings back.

  -- Returns when a window ends that opens at a moment.
  local function window_end(limit, at, length)
    return at + length - (limit.kind == 'aligned' and at % length or 0)
  end

  -- Returns a window as text. Numbers that follow from the others are left out.
  local function window_element(limit, window)
    local text = string.format('%d %d %d %d', window.since, window.length, window.reach, window.count)
    if limit.kind == 'counter' then
      text = string.format('%s %d', text, window.previous)
    end
    if window.shortest == window.length and window.ends == window_end(limit, window.since, window.length) then
      return text
    end
    return string.format('%s %d %d', text, window.shortest, window.ends)
  end

  -- Returns the window of a text, nil if no quota can have left it.
  local function window_parse(limit, text)
    local numbers = {}
    for number in string.gmatch(text, '%d+') do
      numbers[#numbers + 1] = number + 0
    end
    if limit.kind ~= 'counter' then
      table.insert(numbers, math.min(5, #numbers + 1), 0)
    end
    local since, length, reach, count, previous, shortest, ends = unpack(numbers, 1, 7)
    if not previous or since < 1e15 or since >= 1e16 or length < 1000 or length > math.min(reach, 31622400000000)
      or reach > 189734400000000 or math.max(count, previous) > 158112000000000 then
      return nil
    end
    local window = { since = since, length = length, reach = reach, count = count, previous = previous,
      shortest = shortest or length, ends = ends or window_end(limit, since, length) }
    return window_element(limit, window) == text and window or nil
  end

  -- Returns when a window no longer counts. One without permits is reserved, and all of them came back.
  local function window_over(limit, window)
    if window.count + window.previous == 0 then
      return window.ends - window.length
    end
    return window.ends + (limit.kind == 'counter' and window.count > 0 and window.length or 0)
  end

  -- Returns the window that a moment is in, or that begins later; nil if it no longer counts.
  local function window_at(limit, window, at)
    if limit.kind == 'counter' and window.ends <= at then
      window = { since = window.ends, length = window.length, reach = window.reach, count = 0, previous = window.count,
        shortest = window.shortest, ends = window.ends + window.length }
    end
    return window_over(limit, window) > at and window or nil
  end

  -- Returns a list of windows without those that another window of the same length makes needless.
  local function window_drop(windows, is_needless)
    local kept = {}
    for _, window in ipairs(windows) do
      local drops = false
      for _, other in ipairs(windows) do
        drops = drops or other.length == window.length and is_needless(window, other)
      end
      kept[#kept + 1] = not drops and window or nil
    end
    return kept
  end

  -- Returns a list of windows without those that have ended at a moment, and behind which a reserved one has begun.
  local function window_successors(windows, at)
    return window_drop(windows, function(window, other)
      return window.ends <= at and other.ends == window.ends + window.length
    end)
  end

  -- Returns the windows as text, and for how long they matter.
  local function window_text(limit)
    local texts, lasts = {}, 0
    for n, window in ipairs(limit.windows) do
      texts[n] = window_element(limit, window)
      local present = window_at(limit, window, now)
      lasts = math.max(lasts, present and window_over(limit, present) - now or 0)
    end
    return table.concat(texts, ', '), lasts
  end

  local windows, counts, most, least = {}, {}, 0, math.huge
  for element in string.gmatch((limit.text or '') .. ', ', '(.-), ') do
    local window = window_parse(limit, element)
    if not window or window.ends > now + window.reach or #windows == 4 then
      return 0
    end
    windows[#windows + 1] = window
  end
  windows = window_successors(windows, now)
  for n, window in ipairs(windows) do
    local present, count = window_at(limit, window, now), nil
    if present and present.length == limit.number then
      -- The end distinguishes the window of the charge from one that opened after a reset.
      local later = present.ends - taken_at - limit.mark
      count = later == 0 and 'count' or limit.kind == 'counter' and later == present.length and 'previous'
    elseif present and at < present.ends and at >= present.ends - 2 * present.length then
      count = at >= present.ends - present.length and 'count' or 'previous'
    end
    windows[n], counts[n] = count and present or window, count or false
    if count then
      local given = math.min(permits, present[count])
      most, least = math.max(most, given), math.min(least, given)
    end
  end
  return most, least == cost, function()
    for n, window in ipairs(windows) do
      if counts[n] then
        window[counts[n]] = window[counts[n]] - math.min(permits, window[counts[n]])
      end
    end
    -- A reserved window that has not begun and has no permits, if the one before is known.
    limit.windows = window_drop(windows, function(window, other)
      return window.count == 0 and window.ends - window.length > now and other.ends < window.ends
    end)
    return window_text(limit)
  end
end

local function refund_log(limit)
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

  local log = limit.text and log_open(limit.key, limit.text)
  if not log then
    return 0
  end
  local slot, span = string.match(limit.quota, '(%d+) (%d+)')
  local mark, low, high = taken_at + limit.mark, log.dropped + 1, log.length + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if log_entry(log, middle).at >= mark then
      high = middle
    else
      low = middle + 1
    end
  end
  local entry = log_entry(log, low)
  local begins = entry.at - entry.at % slot
  if entry.at < mark or begins ~= mark - mark % slot or begins + span <= now or log_over(log, log.newest.at) <= now then
    return 0
  end
  local given = math.min(permits, entry.count)
  return given, given == cost, function()
    local key = limit.key
    log.total, entry.count = log.total - given, entry.count - given
    local is_newest, is_empty = low > log.length, entry.count == 0
    if log.total == 0 or is_newest and is_empty and log.length == log.dropped then
      redis.call('DEL', key)
      return
    elseif is_newest and is_empty then
      log.newest = log_entry(log, log.length)
    elseif not is_newest then
      redis.call('LSET', key, low, is_empty and 'refunded' or string.format('%d %d', entry.at, entry.count))
    end
    if log.dropped > 0 then
      redis.call('LTRIM', key, log.dropped, -1)
    end
    redis.call('LSET', key, 0, log_head(log))
    if is_empty and is_newest then
      redis.call('LTRIM', key, 0, -2)
    elseif is_empty then
      redis.call('LREM', key, -1, 'refunded')
    end
  end
end

local count, most, is_whole, refunds = #KEYS / 2, 0, now >= taken_at, {}
for n = 1, count do
  local kind, quota, limit_permits, number, mark = unpack(ARGV, 5 * n + 1, 5 * n + 5)
  local is_log = kind == 'loose' or kind == 'strict'
  local limit = { key = KEYS[n], kind = kind, quota = quota, permits = limit_permits + 0, number = number + 0, mark = mark + 0 }
  limit.text = is_log and redis.call('LRANGE', KEYS[n], 0, 0)[1] or not is_log and redis.call('GET', KEYS[n]) or nil
  local refund = kind == 'gcra' and refund_gcra or is_log and refund_log or refund_window
  local given, is_all, write = refund(limit, KEYS[count + n])
  most, is_whole, refunds[n] = math.max(most, given), is_whole and is_all or false, given > 0 and write
end
-- Charged later than now: the clock has stepped back.
if now < taken_at or now < at and not is_whole then
  return 0
end
for n = 1, count do
  local text, lasts
  if refunds[n] then
    text, lasts = refunds[n]()
  end
  if text and lasts > 0 then
    redis.call('SET', KEYS[n], text, 'PX', math.ceil(lasts / 1000) + 1)
  elseif text then
    redis.call('DEL', KEYS[n])
  end
end
return most
