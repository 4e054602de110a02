-- Script  refund: gives permits of one charge back.
--
-- State   that of the script several, or for a policy of one limit that of the script gcra, window or counter
-- KEYS    the key
-- ARGV    for each limit its kind, quota, permits and number, as for the script several. Then the permits to give back;
--         the cost of the charge; when it was made, and the moment that it was made for, in microseconds of Unix time;
--         for how many microseconds leases hold permits that may be in its debt; and for each limit the mark of the charge.
-- Reply   how many permits came back: the most that came back to one of the limits. Before the moment that the charge was
--         made for, all permits come back to all limits, or none.
-- Costs   TIME and GET; if permits came back SET, or DEL if none counts any more

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Returns the debt of a state in ticks of the quota that wrote it; its increment, its ticks of a microsecond, and its
-- text; and whether the state is damaged or from the future, and so a full debt. A debt drains at the pace of the quota
-- that wrote it until another one charges.
local function gcra_read(text, quota, burst, own_increment)
  local digits, decimals = string.gsub((text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
  local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
  -- False if the text can't be read. All three numbers have decimals, or none.
  local debt, scale, writer = not text and 0, decimals > 0 and 10000 or 1, text and string.match(text, ' .*')
  increment, reach = tonumber(increment), tonumber(reach)
  if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
    and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
    debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
  end
  local is_damaged = not debt or debt > 0 and debt > reach
  if debt and debt > 0 and writer ~= quota then
    return math.min(debt, reach), increment, scale, writer, is_damaged
  end
  scale = string.find(quota, '.', 1, true) and 10000 or 1
  return is_damaged and burst * own_increment or debt, own_increment, scale, quota, is_damaged
end

-- Returns a debt as the text of a state.
local function gcra_text(debt, scale, quota)
  local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
  return string.format('%d', now + math.floor(debt / scale)) .. fraction .. quota
end

-- Returns when a window no longer counts. One without permits is reserved, and all of them came back.
local function window_over(window, limit)
  if window.count + window.previous == 0 then
    return window.ends - window.length
  end
  return window.ends + (limit.kind == 'counter' and window.count > 0 and window.length or 0)
end

-- Returns the window that a moment is in, or a later one that is reserved. A fresh one is all zeros.
local function window_at(window, limit, at)
  if limit.kind == 'counter' and window.ends <= at then
    window = { ends = window.ends + window.length, length = window.length, quota = window.quota, count = 0,
      previous = window.count }
  end
  return window_over(window, limit) > at and window or { ends = 0, length = 0, count = 0, previous = 0 }
end

-- Returns when a window ends that opens at a moment.
local function window_end(limit, at, length)
  return at + length - (limit.kind == 'aligned' and at % length or 0)
end

-- Returns the window of a state. One that is damaged or from the future is full, by the length and the counts that it
-- has, which may be larger than this quota's.
local function window_read(text, limit)
  local ends, quota, length, reach, count, previous =
    string.match(text or '', '^(%d+)( (%d+) (%d+) )(%d+) ?(%d*)$')
  local is_readable = ends and #ends == 16 and (previous ~= '') == (limit.kind == 'counter')
  length, reach, count, previous = tonumber(length), tonumber(reach), tonumber(count), tonumber(previous) or 0
  if not text then
    ends, length, reach, count, previous = 0, 0, 0, 0, 0
  elseif not is_readable or length < 1000 or length > math.min(reach, 31622400000000) or reach > 189734400000000
    or math.max(count, previous) > 158112000000000 then
    ends, quota, length, count, previous = math.huge, limit.quota, limit.number, 0, 0
    reach = string.match(quota, '(%d+) $') + 0
  end
  local window = { ends = ends + 0, quota = quota, length = length, count = count, previous = previous }
  if window.ends > now + reach then
    -- The present aligned window may be about to end, so the next one is full too.
    window.ends = window_end(limit, now, length) + (limit.kind == 'aligned' and length or 0)
    window.quota = string.format(' %d %d ', length, math.max(reach, window.ends - now))
    window.count, window.previous, window.is_damaged = math.max(count + previous, limit.most), 0, true
  end
  window = window_at(window, limit, now)
  -- An aligned window may be open already when one of another length ends, so nothing is reserved behind that.
  window.is_foreign = limit.kind == 'aligned' and window.ends > 0 and window.length ~= limit.number
  return window
end

-- Returns the state of a window, and for how long it matters.
local function window_text(window, limit)
  local text = string.format('%d%s%d', window.ends, window.quota or '', window.count)
  local lasts = window_over(window, limit) - now
  return limit.kind == 'counter' and string.format('%s %d', text, window.previous) or text, lasts
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

-- Returns the log of a text, whose elements are joined by semicolons.
local function log_parse(text, limit)
  local older = {}
  for element in string.gmatch(text or '', '[^;]+') do
    older[#older + 1] = element
  end
  local is_whole = text and text ~= '' and table.concat(older, ';') == text
  return log_read(is_whole and table.remove(older, 1) or text and '', older, limit)
end

-- Returns a log as text, and for how long it matters.
local function log_text(log)
  local elements = { log_head(log) }
  for n = math.max(log.dropped, 0) + 1, log.length do
    elements[#elements + 1] = log_element(log.older[n])
  end
  elements[#elements + 1] = log.pushed
  return table.concat(elements, ';'), log.count > 0 and log_end(log, log, log.at) - now or 0
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

-- Each gives back to one limit. Returns the state after it, nil if no quota can have left it, and how many permits
-- came back, and whether all of the charge did.
local function refund_gcra(text, limit, charge)
  local debt, increment, scale, quota, is_damaged = gcra_read(text, limit.quota, limit.most, limit.number)
  local price = increment * charge.permits
  local drained = now < charge.at and 0 or (now - charge.at + charge.leases) * scale
  local given = math.min(price, increment * charge.cost - drained, debt)
  if debt > limit.most * limit.number then
    -- Later reservations keep their moments, so what they need does not come back.
    given = math.min(given, price - (debt - charge.mark + (now - charge.taken_at) * scale))
  end
  given = quota == limit.quota and math.max(given, 0) or 0
  local written, lasts = gcra_text(debt - given, scale, quota), math.ceil((debt - given) / scale)
  return not is_damaged and written, lasts, math.ceil(given / increment), given == increment * charge.cost
end

local function refund_window(text, limit, charge)
  local window, ends, given = window_read(text, limit), charge.taken_at + charge.mark, 0
  local count = ends == window.ends and 'count' or ends + limit.number == window.ends and 'previous'
  if count and window.length == limit.number then
    given = math.min(charge.permits, window[count])
    window[count] = window[count] - given
  end
  local written, lasts = window_text(window, limit)
  return not window.is_damaged and written, lasts, given, given == charge.cost
end

local function refund_log(text, limit, charge)
  local log = log_parse(text, limit)
  local given = log_refund(log, limit, charge, 1)
  local written, lasts = log_text(log)
  return not log.is_damaged and written, lasts, given, given == charge.cost
end

local count = math.floor((#ARGV - 5) / 5)
local permits, cost, taken_at, at, leases = unpack(ARGV, 4 * count + 1)
local charge = { permits = permits + 0, cost = cost + 0, taken_at = taken_at + 0, at = at + 0, leases = leases + 0 }
local text, most, written, longest, is_whole = redis.call('GET', KEYS[1]), 0, {}, 0, true
-- Charged later than now: the clock has stepped back.
if not text or now < charge.taken_at then
  return 0
end
local found = string.gmatch(text .. ', ', '(.-), ')
for n = 1, count do
  local kind, quota, permits, number = unpack(ARGV, 4 * n - 3)
  local limit = { kind = kind, quota = quota, most = permits + 0, number = number + 0 }
  local refund = kind == 'gcra' and refund_gcra or (kind == 'loose' or kind == 'strict') and refund_log or refund_window
  local state, lasts, given, is_all, old = '-', 0, 0, false, found() or ''
  charge.mark = ARGV[4 * count + 5 + n] + 0
  if old ~= '-' then
    state, lasts, given, is_all = refund(old, limit, charge)
  end
  if not state then
    return 0
  end
  written[n], longest = lasts > 0 and state or '-', math.max(longest, lasts)
  most, is_whole = math.max(most, given), is_whole and is_all
end
if most == 0 or now < charge.at and not is_whole then
  return 0
elseif longest <= 0 then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], table.concat(written, ', '), 'PX', math.ceil(longest / 1000) + 1)
end
return most
