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
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
local function scaled(a, b, c)
  if a * b <= 2 ^ 53 then
    return math.ceil(a * b / c)
  end
  -- Long division, four bits of b at a time, so that no product reaches 2^53.
  local quotient, rest = 0, 0
  for digit = 12, 0, -1 do
    rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
    quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
  end
  return rest > 0 and quotient + 1 or quotient
end

-- GCRA: a debt in ticks, of which a microsecond has 1 or 10000. Its text is the theoretical arrival time (TAT), at which it is
-- paid off, in microseconds of Unix time, with four decimals if a permit does not add a whole number of them.

-- Returns the debt of a text, and whether none is that large under any quota of the span: then it is a whole burst.
local function gcra_read(text, scale, capacity, most)
  if not text then
    return 0, false
  end
  local tat, part = #text == 16 and not string.find(text, '%D') and text, 0
  if not tat and #text == 21 then
    tat, part = string.match(text, '^(%d+)%.(%d%d%d%d)$')
  end
  local debt = tat and math.max((tat - now) * scale + math.ceil(part * scale / 10000), 0) or math.huge
  if debt > capacity and debt > most * 513 / 512 + 10 * scale then
    return capacity, true
  end
  return debt, false
end

-- Returns the text of a debt, or the number that becomes it.
local function gcra_text(debt, scale)
  return scale == 1 and now + debt or string.format('%d.%04d', now + math.floor(debt / scale), debt % scale)
end

-- Windows: `past count`, or of a sliding counter `past count before`: when the window is past, the permits taken in it, and
-- those of the window before, which fade. A counter's window is past a length after its end. A window that is reserved for
-- later decides, in front of the present one, which decides again if all of that is refunded.

-- Returns when a window ends that opens at a moment.
local function window_end(kind, length, at)
  return at + length - (kind == 'aligned' and at % length or 0)
end

-- Returns when the window of a text ends, its permits, those of the window before, and the text of older ones; nil if the text
-- is not a window.
local function window_parse(kind, length, text)
  local fades = kind == 'counter'
  local past, count, before, older =
    string.match(text, fades and '^(%d+) (%d+) (%d+)(.*)$' or '^(%d+) (%d+)()(.*)$')
  if past and #past == 16 and #count < 16 and (not fades or #before < 16) then
    return past - (fades and length or 0), count + 0, fades and before + 0 or 0, older
  end
end

-- Returns the same of the window that a moment is in, or of one that is reserved for later; of an empty one if nothing counts
-- any more.
local function window_at(kind, length, at, ends, count, before)
  if kind == 'counter' and ends <= at then
    ends, count, before = ends + length, 0, count
  end
  if ends <= at or count + before == 0 then
    return window_end(kind, length, at), 0, 0
  end
  return ends, count, before
end

-- Returns the same of the newest window of a field, and whether the text is damaged, or the window too far ahead: then it is full.
local function window_read(kind, permits, length, ahead, text)
  if not text then
    return now, 0, 0, '', false
  end
  local ends, count, before, older = window_parse(kind, length, text)
  if ends and ends <= now + ahead then
    return ends, count, before, older, false
  end
  -- The present aligned window may be about to end, so the next one is full, too.
  local full = window_end(kind, length, now) + (kind == 'aligned' and length or 0)
  return full, math.max(ends and count + before or 0, permits), 0, '', true
end

-- Returns the first moment from one on at which a cost fits.
local function window_fits(kind, permits, length, cost, from, ends, count, before)
  local room = permits - cost
  if room < 0 then
    return math.huge
  elseif count > 0 and ends - length > from then
    from = ends - length
  end
  ends, count, before = window_at(kind, length, from, ends, count, before)
  local excess = count + before - room
  if count <= room then
    ends = ends - length + (excess > 0 and scaled(excess, length, before) or 0)
  elseif kind == 'counter' then
    -- In the next window, in which the permits of this one fade.
    ends = ends + scaled(count - room, length, count)
  end
  return math.max(ends, from)
end

-- Returns how long the permits last, how many are left, and the window that has those of the present.
local function window_usage(kind, permits, length, ends, count, before)
  ends, count, before = window_at(kind, length, now, ends, count, before)
  local reset = count + before > 0 and ends - now + (kind == 'counter' and count > 0 and length or 0) or 0
  if ends - length > now then
    return reset, 0, ends, count, before
  elseif before > 0 then
    permits = permits - scaled(ends - now, before, length)
  end
  return reset, permits > count and permits - count or 0, ends, count, before
end

local function window_text(kind, length, ends, count, before)
  if kind == 'counter' then
    return string.format('%d %d %d', ends + length, count, before)
  end
  return string.format('%d %d', ends, count)
end

-- Returns all windows of a limit, the newest first.
local function windows_of(limit)
  local windows = {}
  for text in string.gmatch(window_text(limit.kind, limit.number, limit.ends, limit.count, limit.before) .. limit.older, '%d[^,]*') do
    local ends, count, before = window_parse(limit.kind, limit.number, text)
    local past = ends and ends + (limit.kind == 'counter' and limit.number or 0)
    windows[#windows + 1] = ends and { ends = ends, past = past, count = count, before = before, text = text }
  end
  return windows
end

-- Charges a cost for a moment.
local function windows_charge(limit, cost, at)
  local kind, length = limit.kind, limit.number
  local ends, count, before = window_at(kind, length, at, limit.ends, limit.count, limit.before)
  if ends ~= limit.ends then
    -- Windows that count at present follow the new one. A fifth goes, and the fourth is full from then on.
    local kept, newest = {}, limit.ends
    limit.ends, limit.count, limit.before = window_at(kind, length, now, limit.ends, limit.count, limit.before)
    limit.older = limit.ends == newest and limit.older or ''
    for _, window in ipairs(limit.count + limit.before > 0 and ends ~= limit.ends and windows_of(limit) or {}) do
      -- One whose permits all came back is past earlier.
      local past = window.count > 0 and window.past or window.before > 0 and window.ends or 0
      if past > now and #kept == 3 then
        kept[3] = string.gsub(kept[3], '(%d) %d+', '%1 200000000000000', 1)
      elseif past > now then
        kept[#kept + 1] = ', ' .. window.text
      end
    end
    limit.older = table.concat(kept)
  end
  limit.ends, limit.count, limit.before = ends, count + cost, before
end

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
