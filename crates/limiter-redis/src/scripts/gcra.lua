-- GCRA: a debt that drains. Its twin is gcra.rs, which does the same in the same words.
--
-- Quota    increment, capacity, scale: the ticks of a permit and of the burst, and those of a
--          microsecond; and digits: the number of the increment, if it is even and divides a day: that
--          of 2^a * 3^b * 5^c is 10 + ((a - 1) * 4 + b) * 9 + c, with a from 1 to 13, b up to 3 and c up
--          to 8; or '000'
-- State    the debt at `now`, in ticks
-- Text     the moment at which the debt is drained, and the increment by which it does: as doubles.
--          Where a tick is not a microsecond the moment is negative, and the remainder in ticks and the
--          scale follow, in six bytes each. With a number, both are digits, which Redis stores as one
--          integer: 16 of Unix time, two milliseconds later, so that the first 13 are the key's expiry;
--          and three of the number
-- Numbers  the debt

-- Returns a * b / c rounded up, for whole numbers below 2^51 with a quotient below 2^53.
local function scaled(a, b, c)
  local whole = math.floor(a / c)
  local rest, factor, part, over = a - whole * c, b, 0, 0
  -- Bit by bit, since rest * b is beyond what a double counts exactly.
  local bits = {}
  while factor > 0 do
    bits[#bits + 1] = factor % 2
    factor = (factor - factor % 2) / 2
  end
  for i = #bits, 1, -1 do
    part, over = part * 2, over * 2 + bits[i] * rest
    local carry = math.floor(over / c)
    part, over = part + carry, over - carry * c
  end
  return whole * b + part + (over > 0 and 1 or 0)
end

-- A state that this quota can't have left (the clock stepped back, the value is corrupt) counts as
-- the largest debt there is: else it would hold the key until the clock has caught up with it.
local function read(text, latest)
  if not text then
    return false, 0
  end
  -- Nothing is promised for later than a double can count; the clock may step back from it.
  local most = math.min(capacity + (latest - now) * scale, 2 ^ 53)
  local at, old_increment, rem, old_scale = -1, 0, 0, 1
  if #text == 19 and string.match(text, '^%d+$') then
    local number = string.sub(text, 17) - 10
    if number >= 0 and number < 468 then
      at = string.sub(text, 1, 16) - 1600000000002000
      old_increment = 2 ^ (math.floor(number / 36) + 1) * 3 ^ (math.floor(number / 9) % 4) * 5 ^ (number % 9)
    end
  elseif #text == 16 then
    at, old_increment = from_bytes('<dd', text)
  elseif #text == 28 then
    at, old_increment, rem, old_scale = from_bytes('<ddI6I6', text)
    at = -at
  end
  if not (is_whole(at) and is_whole(old_increment) and old_scale > 0) then
    return true, most
  end
  if at < now then
    return false, 0
  end
  local debt = (at - now) * old_scale + rem
  if old_increment == increment and old_scale == scale then
    if debt > most then
      return true, most
    end
    return false, debt
  end
  -- Another quota's: the permits that were taken stay taken.
  if not (debt < 2 ^ 51 and old_increment < 2 ^ 51 and debt / old_increment * increment < most) then
    return true, most
  end
  return true, math.min(scaled(debt, increment, old_increment), most)
end

-- The debt at a later moment.
local function debt_at(at, debt)
  local drained = (at - now) * scale
  return debt > drained and debt - drained or 0
end

local function wait(cost, from, debt)
  local price = cost * increment
  if price > capacity then
    return math.huge
  end
  local excess = debt_at(from, debt) - (capacity - price)
  return excess > 0 and math.ceil(excess / scale) or 0
end

-- Where a wait was rounded up, the debt is below the capacity, never above.
local function charge(cost, at, debt)
  local charged = debt_at(at, debt) + cost * increment
  return (at - now) * scale + (charged < capacity and charged or capacity)
end

-- What was promised for later stays.
local function owe(cost, at, debt)
  return math.min(debt + cost * increment, math.max(debt, capacity))
end

-- What is left of the charge's part of the line, which ends at its mark, is given back, and what has
-- filled the line behind it moves up. Where it has moved up itself, it ends no earlier than alone.
local function refund(permits, cost, at, has_moved, mark, mark_rem, debt)
  local taken, ends = permits * increment, (mark - now) * scale + mark_rem
  if debt == ends and not has_moved then
    return false, debt > taken and debt - taken or 0
  end
  if debt > capacity then
    -- Permits that were promised for later keep their distance from each other.
    return false, debt
  end
  if has_moved then
    ends = (at - now) * scale + cost * increment
  end
  local undrained = math.max(0, math.min(taken, ends, debt))
  return undrained > 0, debt - undrained
end

local function write(debt)
  local rem = debt % scale
  local drained = now + (debt - rem) / scale
  if digits ~= '000' and drained < 2.9 * 10 ^ 15 then
    return format('%d%s', drained + 1600000000002000, digits), drained
  end
  if scale == 1 then
    return to_bytes('<dd', drained, increment), drained
  end
  return to_bytes('<ddI6I6', -drained, increment, rem, scale), drained + 1
end

-- How many bytes of a text are the state that begins at a place. In digits it was alone, until its
-- policy got a tier.
local function length(text, from)
  if #text == 19 and string.match(text, '^%d+$') then
    return 19
  end
  return #text - from >= 7 and from_bytes('<d', text, from) < 0 and 28 or 16
end

local function numbers(debt)
  return debt
end
