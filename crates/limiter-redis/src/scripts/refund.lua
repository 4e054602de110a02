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
  -- include gcra

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
  -- include window

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
  -- include log

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
