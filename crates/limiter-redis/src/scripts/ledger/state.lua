-- Sub-windows and the exact log: permits by the time at which they were taken, as long as they count.
--
-- State    a list: `newest count total slot span horizon`, then `at count` of each older entry, the oldest
--          first. Permits of one slot share an entry, whose time is that of the last of them; it counts for
--          the span from its slot's start. The first element has the newest entry, the permits of all
--          entries, and the longest span and horizon of the quotas that wrote them, with a slot of 1 if
--          their slots differ. In microseconds, times in Unix time. A log's slot is 1.
--          As one of several limits, the elements are joined by spaces.

-- Returns a limit: its quota ` slot span horizon`, as it ends a first element; into how many slots a paced window
-- spreads its permits, else 0; how many these are; and `loose` if a span is the window alone.
local function ledger_limit(quota, paced, most, kind)
  local slot, span, horizon = string.match(quota, '(%d+) (%d+) (%d+)')
  return { quota = quota, slot = slot + 0, span = span + 0, horizon = horizon + 0, paced = paced + 0, most = most + 0,
    is_loose = kind == 'loose' }
end

-- Returns the state of a first element, false if no quotas have its numbers.
local function ledger_parse(text, limit)
  local newest, count, total, quota = string.match(text, '^(%d+) (%d+) (%d+)( .*)$')
  if not newest or #newest ~= 16 or #count > 16 or #total > 16 then
    return false
  end
  local by = quota == limit.quota and limit or string.find(quota, '^ %d+ %d+ %d+$') and ledger_limit(quota, 0, 0)
  return by and by.slot > 0 and by.slot <= by.span and by.span <= 64000000000000 and by.horizon <= 158112000000000
    and { newest = newest + 0, count = count + 0, total = total + 0, slot = by.slot, span = by.span,
      horizon = by.horizon, dropped = 0 }
end

local function ledger_text(state)
  local newest, count, total, slot, span = state.newest, state.count, state.total, state.slot, state.span
  return string.format('%d %d %d %d %d %d', newest, count, total, slot, span, state.horizon)
end

-- Returns the time and the count of an entry: by its number, from the oldest to the newest, or below zero from the
-- one before the newest. With a key, `elements` are the first ones of a list, and more are read as needed.
local function ledger_entry(state, elements, key, i)
  local element = elements[i + 1]
  if i < 0 and key then
    element = redis.call('LINDEX', key, i)
  elseif i < 0 then
    element = #elements + i > 0 and elements[#elements + 1 + i]
  elseif key and not element and #elements > 2 and not elements.is_all then
    local n, more = #elements, redis.call('LRANGE', key, #elements, math.min(3 * #elements, #elements + 1000))
    for k = 1, #more do
      elements[n + k] = more[k]
    end
    element, elements.is_all = more[1], not more[1]
  end
  if not element and i == #elements then
    return state.newest, state.count
  end
  local at, count = string.match(element or '', '^(%d+) (%d+)$')
  if at and #at == 16 and #count <= 16 then
    return at + 0, count + 0
  end
end

-- Returns until when an entry counts: by the quota, and by those that wrote it.
local function ledger_over(limit, state, at)
  return math.min(at - at % limit.slot + limit.span, at - at % state.slot + state.span)
end
