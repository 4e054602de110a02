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

-- include clock

-- include gcra

-- include window

-- include log

-- include log_text

-- include log_refund

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
