-- Dated entries and their sum, for sub-windows and the exact log. Its twin is `Ledger` of
-- limiter-core, which does the same in the same words.
--
-- Quota    limit, slot, span, loose, offset, paced, slots: the permits, the length of a slot and how
--          long an entry counts in microseconds, 1 if that is the window alone, how far the start of
--          a slot is before the time zero; and the permits that are spread over how many slots, or 0
-- State    the entries: the sum `total` of their counts, the numbers `first` and `last` of the oldest and
--          the newest, and what was seen of their times `at` and `count`s; see tape.lua and packed.lua
-- Text     none, but the bytes that tape.lua describes; in packed.lua, of each entry `at` and the count in
--          four digits, or `at:count`
-- Numbers  the time until all are over, the permits that remain, and when the permits were taken, from
--          now; or at a refusal how long the cost has to wait, -1 for ever

local function slot_of(at)
  return at - (at + offset) % slot
end

-- Permits of one slot share an entry, and so do all that come when there are four million entries. None
-- has more than `most`, which is no less than the limit.
local function enter(at, count, log)
  local last, before = log.last, 0
  local shares = last >= log.first and (slot_of(at_of(log, last)) >= slot_of(at) or last - log.first >= 2 ^ 22)
  if shares then
    at, before, log.changed = math.max(log.at[last], at), count_of(log, last), last
  else
    last = last + 1
  end
  count = math.min(count, most - before)
  log.total, log.last = log.total + count, last
  log.at[last], log.count[last] = at, before + count
end

local function read(text, latest)
  local log, healed = entries(text)
  if log.last >= log.first and now - slot_of(at_of(log, log.last)) >= span then
    log.total, log.first = 0, log.last + 1
  end
  while log.last >= log.first and now - slot_of(at_of(log, log.first)) >= span do
    log.total, log.first = math.max(0, log.total - count_of(log, log.first)), log.first + 1
  end
  -- From before a step back. Such permits count for a whole window from now on: in a loose one, those
  -- of the present slot would not.
  if loose == 1 then
    latest = latest + slot - 1
  end
  local later = 0
  while log.last >= log.first and slot_of(at_of(log, log.last)) > latest do
    later = later + count_of(log, log.last)
    log.last = log.last - 1
    log.kept, healed = log.last, true
  end
  if later > 0 then
    log.total = math.max(0, log.total - later)
    enter(slot_of(latest), later, log)
  end
  return healed, log
end

-- How many permits a slot with this number may have.
local function ceiling(number)
  number = number % slots
  return math.floor(paced * (number + 1) / slots) - math.floor(paced * number / slots)
end

-- How many permits fit into the slot of a moment.
local function room_in_slot(at, log)
  if slots == 0 then
    return math.huge
  end
  local taken, i = 0, log.last
  while i >= log.first and slot_of(at_of(log, i)) >= slot_of(at) do
    taken, i = taken + count_of(log, i), i - 1
  end
  return math.max(0, ceiling(math.floor((at + 1600000000000000) / slot)) - taken)
end

-- The first slot from this number on that may have so many permits.
local function next_with(cost, number)
  local share, rest = math.floor(paced / slots), paced % slots
  if cost <= share then
    return number
  end
  -- One of the slots with one permit more: of a window's, the first in which the rest, spread evenly,
  -- reaches the next whole number.
  local within = number % slots
  rest = math.max(rest, 1)
  local reached = (math.floor(within * rest / slots) + 1) * slots
  return number - within + math.ceil(reached / rest) - 1
end

local function wait(cost, from, log)
  if cost > limit or slots > 0 and cost > math.ceil(paced / slots) then
    log.wait = -1
    return math.huge
  end
  -- Behind what was promised for later.
  local fits_at, total, i = from, log.total, log.first
  if log.last >= log.first then
    fits_at = math.max(from, slot_of(at_of(log, log.last)))
  end
  while total > limit - cost and i <= log.last do
    total = total - count_of(log, i)
    fits_at = math.max(fits_at, slot_of(at_of(log, i)) + span)
    i = i + 1
  end
  if slots > 0 and room_in_slot(fits_at, log) < cost then
    local number = math.floor((fits_at + 1600000000000000) / slot)
    fits_at = next_with(cost, number + 1) * slot - 1600000000000000
  end
  log.wait = fits_at - from
  return log.wait
end

local function charge(cost, at, log)
  enter(at, cost, log)
  log.taken_at = log.at[log.last]
  return log
end

-- The newest permits, as many as there are at all.
local function owe(cost, at, log)
  enter(at, math.min(cost, limit), log)
  while log.total > limit and log.first <= log.last do
    local surplus = math.min(log.total - limit, count_of(log, log.first))
    log.total, log.count[log.first] = log.total - surplus, log.count[log.first] - surplus
    if log.count[log.first] == 0 then
      log.first = log.first + 1
    end
  end
  return log
end

local function refund(permits, cost, at, has_moved, mark, mark_rem, log)
  local low, high = log.first, log.last + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at_of(log, middle) < mark then
      low = middle + 1
    else
      high = middle
    end
  end
  -- Else its own entry is over, and this is a later one, or one that can't be read.
  if low <= log.last and slot_of(at_of(log, low)) == slot_of(mark) and count_of(log, low) > 0 then
    permits = math.min(permits, count_of(log, low))
    log.total = math.max(0, log.total - permits)
    change(log, low, log.count[low] - permits)
  end
  return false, log
end

local function write(log)
  local till = now
  if log.last >= log.first then
    till = slot_of(at_of(log, log.last)) + span
  end
  return written(log, till), till
end

local function numbers(log)
  local remaining, till = math.max(0, limit - log.total), now
  if log.last >= log.first then
    local begun = slot_of(at_of(log, log.last))
    -- Nothing is left of the present where a later slot has begun.
    remaining, till = begun <= now and remaining or 0, begun + span
  end
  local own = room_in_slot(now, log)
  return till - now, own < remaining and own or remaining, log.taken_at and log.taken_at - now or log.wait or 0
end
