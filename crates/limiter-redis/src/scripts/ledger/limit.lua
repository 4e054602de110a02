-- Sub-windows and the exact log: permits by the time at which they were taken, as long as they count.
--
-- State    a header, `slot span horizon`, and entries, `at count`, by time. Permits of one slot share an
--          entry, whose time is that of the last of them; it counts for the span from its slot's start.
--          The header is that of the quotas that wrote the entries: the longest span and horizon, and
--          a slot of 1 if their slots differ. In microseconds, `at` in Unix time. A log's slot is 1.
-- Quota    `ledger slot span horizon limit loose slots`: loose is 1 if the span is the window alone, and
--          slots is into how many a paced window spreads its permits, else 0
local ledger = {}

function ledger.open(slot, span, horizon, most, loose, slots)
  return { slot = tonumber(slot), span = tonumber(span), horizon = tonumber(horizon), most = tonumber(most),
    loose = loose == '1', slots = tonumber(slots), at = {}, count = {}, first = 1, last = 0, total = 0 }
end

-- Returns an entry, of which the oldest is the first. Those of a list are fetched when they are needed.
local function entry(limit, i)
  if not limit.count[i] then
    limit.fetch(limit, i)
  end
  return limit.at[i], limit.count[i]
end

local function end_of(slots, at)
  return at - at % slots.slot + slots.span
end

-- Returns until when an entry counts: by the quota, or until those that wrote forget it.
local function counts_until(limit, at)
  return math.min(end_of(limit, at), end_of(limit.header, at))
end

-- Returns the header of entries that the quota and those of another header have to find.
local function join(limit, header)
  local is_same = header.slot == limit.slot and header.span == limit.span
  -- Slots of two lengths share no grid.
  return { slot = is_same and limit.slot or 1, span = math.max(limit.span, header.span),
    horizon = math.max(limit.horizon, header.horizon) }
end

-- Returns a header, nothing if no quotas have its numbers.
local function header_of(slot, span, horizon)
  slot, span, horizon = tonumber(slot), tonumber(span), tonumber(horizon)
  if horizon and horizon >= 0 and slot > 0 and slot <= span and span <= 64000000000000 and horizon <= 158112000000000 then
    return { slot = slot, span = span, horizon = horizon }
  end
end

-- Drops what no quota counts any more. The limit has what was found: header, total, and the numbers of the
-- first and the last entry. Returns whether that was possible; else the limit is full from now on.
local function ledger_advance(limit)
  local header = limit.header
  if not header or limit.last > 0 and entry(limit, limit.last) > now + math.max(header.horizon, header.slot) then
    -- A loose window counts the present slot for less than a whole window.
    local at = now + (limit.loose and (-now) % limit.slot or 0)
    -- As long and as much as the quotas count that wrote it.
    local count = header and math.max(limit.total, limit.most) or limit.most
    limit.header, limit.first, limit.last, limit.total = join(limit, header or limit), 1, 1, count
    limit.header.horizon = math.max(limit.header.horizon, at - now)
    limit.at, limit.count = { at }, { count }
    return false
  end
  while limit.first <= limit.last and end_of(header, limit.at[limit.first] or entry(limit, limit.first)) <= now do
    local _, count = entry(limit, limit.first)
    limit.total, limit.first = limit.total - count, limit.first + 1
  end
  if limit.first > limit.last then
    limit.header = limit
  end
  return true
end

-- Returns how many permits count at a moment, and the first entry that does.
local function ledger_sum(limit, at)
  local header = limit.header
  if header.slot == limit.slot and header.span == limit.span then
    return limit.total, limit.first
  end
  local sum, i = 0, limit.last
  while i >= limit.first and counts_until(limit, (entry(limit, i))) > at do
    sum, i = sum + limit.count[i], i - 1
  end
  return sum, i + 1
end

-- Returns the permits of the slot of a moment that count then, and the first entry of them.
local function in_slot(limit, at)
  local taken, i = 0, limit.last
  while i >= limit.first and entry(limit, i) >= at - at % limit.slot and counts_until(limit, limit.at[i]) > at do
    taken, i = taken + limit.count[i], i - 1
  end
  return taken, i + 1
end

-- Returns the ceiling of a slot of a paced window, by its number. Those of two slots differ by at most one.
local function ceiling(limit, slot)
  local number, rest = slot % limit.slots, limit.most % limit.slots
  return floor(limit.most / limit.slots) + floor(rest * (number + 1) / limit.slots) - floor(rest * number / limit.slots)
end

-- Returns how many permits fit into the slot of a moment, if the window is paced.
local function room_in_slot(limit, at)
  if limit.slots == 0 then
    return math.huge
  end
  return math.max(ceiling(limit, floor(at / limit.slot)) - in_slot(limit, at), 0)
end

-- Returns the first slot from this number on with a ceiling of at least the cost.
local function next_slot(limit, cost, number)
  local within, rest = number % limit.slots, limit.most % limit.slots
  if cost <= floor(limit.most / limit.slots) then
    return number
  end
  -- Of the slots with one permit more, the first in which the rest, spread evenly, reaches the next whole.
  return number - within + ceil((floor(within * rest / limit.slots) + 1) * limit.slots / rest) - 1
end

-- Returns the first moment from `at` on at which a slot has room for a cost: when enough of what another quota
-- took in this slot is over, or in a later slot whose ceiling is high enough.
local function fits_by_pace(limit, cost, at)
  local slot, fits = floor(at / limit.slot), at
  local room, taken, i = ceiling(limit, slot) - cost, in_slot(limit, at)
  while taken > room and i <= limit.last do
    fits = math.max(fits, counts_until(limit, (entry(limit, i))))
    taken, i = taken - limit.count[i], i + 1
  end
  if taken <= room and fits < (slot + 1) * limit.slot then
    return fits
  end
  return next_slot(limit, cost, slot + 1) * limit.slot
end

function ledger.fits(limit, cost, from)
  local largest = limit.slots > 0 and ceil(limit.most / limit.slots) or limit.most
  if cost > largest then
    return math.huge
  end
  local at, sum, i = from, ledger_sum(limit, from)
  -- Behind what was promised for later.
  if limit.first <= limit.last then
    local newest = entry(limit, limit.last)
    at = math.max(from, newest - newest % limit.slot)
  end
  while sum > limit.most - cost and i <= limit.last do
    at = math.max(at, counts_until(limit, (entry(limit, i))))
    sum, i = sum - limit.count[i], i + 1
  end
  if limit.slots > 0 then
    at = fits_by_pace(limit, cost, at)
  end
  return at
end

function ledger.charge(limit, cost, at)
  limit.header, limit.total = join(limit, limit.header), limit.total + cost
  local newest = limit.first <= limit.last and entry(limit, limit.last)
  if newest and newest - newest % limit.slot >= at - at % limit.slot then
    limit.at[limit.last], limit.count[limit.last] = math.max(newest, at), limit.count[limit.last] + cost
  else
    limit.last = limit.last + 1
    limit.at[limit.last], limit.count[limit.last] = at, cost
  end
  return limit.at[limit.last] - now
end

-- Returns the number of permits that came back, and the entry that had them.
function ledger.refund(limit, permits, taken_at, mark)
  local low, high = limit.first, limit.last + 1
  mark = taken_at + mark
  while low < high do
    local middle = floor((low + high) / 2)
    if entry(limit, middle) < mark then
      low = middle + 1
    else
      high = middle
    end
  end
  if low > limit.last or limit.at[low] - limit.at[low] % limit.slot ~= mark - mark % limit.slot then
    return 0
  end
  permits = math.min(permits, limit.count[low])
  limit.count[low], limit.total = limit.count[low] - permits, limit.total - permits
  return permits, low
end

-- Nothing is left of the present once a later slot is in use.
function ledger.usage(limit)
  local remaining = math.min(math.max(limit.most - ledger_sum(limit, now), 0), room_in_slot(limit, now))
  if limit.first > limit.last then
    return 0, remaining
  end
  local newest = entry(limit, limit.last)
  return math.max(counts_until(limit, newest) - now, 0), newest - newest % limit.slot <= now and remaining or 0
end
