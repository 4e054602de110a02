-- Script  refund: gives permits of one charge back.
--
-- State   that of the script list. Beside a field of GCRA, `FIELD:leases` has the latest end of its leases, in microseconds of
--         Unix time.
-- KEYS    the hash, unless all limits are logs, and then the list of each log
-- ARGV    the permits to give back; the cost of the charge; when it was made, and the moment that it was made for, in
--         microseconds of Unix time; how long it lasts if it is a lease by GCRA, else 0. Then for each limit six words as for
--         the script list, the mark of the charge, and of gcra the span in ticks, else 0.
-- Reply   how many permits came back: the most that came back to one of the limits. Before the moment that the charge was
--         made for, all permits come back to all limits, or none.
-- Costs   TIME; for each field HGET, and of GCRA twice, or for a log LRANGE, LLEN and LINDEX for each step of a binary search; if
--         permits came back HSET, or HDEL if none counts any more; for a log LSET once or twice, and LREM or LTRIM if an entry
--         has no more permits
-- include clock

-- include scaled

-- include gcra

-- include window

-- include windows

-- include log

local permits, cost, taken_at, at, length = unpack(ARGV, 1, 5)
permits, cost, taken_at, at, length = math.min(permits, cost), cost + 0, taken_at + 0, at + 0, length + 0

-- Each returns how many permits come back to a limit, whether that is the whole charge, and a function that writes the state;
-- 0 if the charge does not count any more.

-- Returns a function that writes a text, or without one removes the field.
local function write_field(limit, text)
  return function()
    if text then
      redis.call('HSET', limit.key, limit.field, text)
    else
      redis.call('HDEL', limit.key, limit.field)
    end
  end
end

local function refund_gcra(limit, mark, span)
  local increment, scale = limit.number, limit.extra
  local debt, is_damaged = gcra_read(limit.text, scale, limit.permits * increment, limit.ahead)
  -- A lease that was granted since may be in the debt of the charge, so that drains until the lease ends.
  local ends = tonumber(redis.call('HGET', limit.key, limit.field .. ':leases') or 0) or 0
  ends = ends <= now + limit.ahead / scale and ends or 0
  local drained = now < at and 0 or (math.max(now, ends - length) - at) * scale
  local given = math.min(increment * permits, increment * cost - drained, debt)
  if debt > span then
    -- Later reservations keep their moments, so what they need does not come back: they may be those of another quota.
    local behind = math.max(debt - mark + (now - taken_at) * scale, 0)
    local most = behind == 0 and limit.permits * increment or span
    given = math.min(given, math.min(increment * permits, most) - behind)
  end
  given = is_damaged and 0 or math.max(given, 0)
  local text = debt > given and gcra_text(debt - given, scale) or nil
  return math.ceil(given / increment), given == increment * cost, write_field(limit, text)
end

local function refund_window(limit, mark)
  local windows, most, fades, texts, is_damaged = {}, 0, limit.kind == 'counter', {}, nil
  limit.ends, limit.count, limit.before, limit.older, is_damaged =
    window_read(limit.kind, limit.permits, limit.number, limit.ahead, limit.text)
  for _, window in ipairs(limit.text and not is_damaged and windows_of(limit) or {}) do
    -- The charge is in the window with this end, or in the next one if that fades.
    local later, count = window.ends - taken_at - mark, nil
    if later == 0 and window.past > now then
      count = 'count'
    elseif fades and later == limit.number and window.ends > now then
      count = 'before'
    end
    local given = count and window[count] < 2e14 and math.min(permits, window[count]) or 0
    if given > 0 then
      window[count] = window[count] - given
    end
    windows[#windows + 1], most = window, math.max(most, given)
  end
  while #windows > 1 and windows[1].count == 0 do
    table.remove(windows, 1)
  end
  for n, window in ipairs(windows) do
    texts[n] = window_text(limit.kind, limit.number, window.ends, window.count, window.before)
  end
  local counts = windows[1] and windows[1].count + windows[1].before > 0
  return most, most == cost, write_field(limit, counts and table.concat(texts, ', ') or nil)
end

local function refund_log(limit, mark)
  if log_read(limit) or limit.count == 0 or limit.is_damaged then
    return 0
  end
  local length = redis.call('LLEN', limit.key) - 1
  local function entry(n)
    local words = n > length and string.format('%d %d', limit.at, limit.count) or redis.call('LINDEX', limit.key, n)
    local taken, count = string.match(words, '^(%d+) (%d+)$')
    return taken and taken + 0 or limit.at, count and count + 0 or 0
  end
  mark = taken_at + mark
  local low, high = limit.past + 1, length + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if entry(middle) >= mark then
      high = middle
    else
      low = middle + 1
    end
  end
  local taken, count = entry(low)
  local is_own = taken >= mark and taken - taken % limit.number == mark - mark % limit.number
  local given = is_own and log_end(limit, taken) > now and math.min(permits, count) or 0
  return given, given == cost, function()
    local key, is_newest, is_empty = limit.key, low > length, count == given
    -- Of the others, it keeps also those that are past.
    local sum = string.match(redis.call('LINDEX', key, 0), '%d+$') - given
    if limit.sum == given or is_newest and is_empty and length == limit.past then
      redis.call('UNLINK', key)
      return
    elseif is_newest and is_empty then
      limit.at, limit.count = entry(length)
      redis.call('LTRIM', key, 0, -2)
    elseif is_newest then
      limit.count = count - given
    elseif is_empty then
      redis.call('LSET', key, low, 'refunded')
      redis.call('LREM', key, -1, 'refunded')
    else
      redis.call('LSET', key, low, string.format('%d %d', taken, count - given))
    end
    redis.call('LSET', key, 0, string.format('%d %d %d', limit.at, limit.count, sum))
  end
end

local refund_of = { gcra = refund_gcra, loose = refund_log, strict = refund_log }
local most, is_whole, writes, key = 0, now >= taken_at, {}, #KEYS
for n = #ARGV - 7, 6, -8 do
  -- From the last limit on, because the hash comes before the logs.
  local kind, field, of_limit, number, ahead, extra, mark, span = unpack(ARGV, n, n + 7)
  local limit = { kind = kind, field = field, permits = of_limit + 0, number = number + 0, ahead = ahead + 0 }
  limit.extra, limit.span, limit.key = extra + 0, extra + 0, KEYS[1]
  if kind == 'loose' or kind == 'strict' then
    limit.key, key = KEYS[key], key - 1
  else
    limit.text = redis.call('HGET', limit.key, field)
  end
  local given, is_all, write = (refund_of[kind] or refund_window)(limit, mark + 0, span + 0)
  most, is_whole, writes[#writes + 1] = math.max(most, given), is_whole and is_all, given > 0 and write or nil
end
-- Charged later than now: the clock has stepped back.
if now < taken_at or now < at and not is_whole then
  return 0
end
for _, write in ipairs(writes) do
  write()
end
return most
