-- The fixed window: a counter that starts anew with each window. Its twin is fixed_window.rs, which
-- does the same in the same words.
--
-- Quota    limit, window, offset: the permits of a window, its length in microseconds, and how far the
--          start of a window is before the time zero, or -1 where it starts with the first use; and
--          is_alone: 1 where no other limit has the key
-- State    when the window ends, and the permits that were taken in it; a fresh one ends now
-- Text     both: alone in 15 and 3 digits if that is enough, which Redis stores as one integer; else as
--          doubles
-- Numbers  the time until the end, the count

local function end_from(at)
  if offset < 0 then
    return at + window
  end
  return at + window - (at + offset) % window
end

local function read(text, latest)
  if not text then
    return false, now, 0
  end
  local ends, count = -1, 0
  if #text == 18 and string.match(text, '^%d+$') then
    ends, count = string.sub(text, 1, 15) + 0, string.sub(text, 16) + 0
  elseif #text == 16 then
    ends, count = from_bytes('<dd', text)
  end
  -- From before a step back. Aligned, an end a window from now is none; the next one is.
  local latest_end = offset < 0 and latest + window or end_from(latest) + window
  if not (is_whole(ends) and is_whole(count)) or count > 2 ^ 52 then
    return true, end_from(now), limit
  end
  if ends <= now then
    return false, now, 0
  end
  if ends > latest_end then
    return true, latest_end, count
  end
  return false, ends, count
end

local function wait(cost, from, ends, count)
  local room = limit - cost
  if room < 0 then
    return math.huge
  end
  local fits_at = ends
  if count <= room or ends <= from then
    fits_at = ends - window
  end
  return fits_at > from and fits_at - from or 0
end

local function charge(cost, at, ends, count)
  if ends <= at then
    return end_from(at), cost
  end
  return ends, count + cost
end

local function owe(cost, at, ends, count)
  ends, count = charge(cost, at, ends, count)
  return ends, math.min(count, limit)
end

local function refund(permits, cost, at, has_moved, mark, mark_rem, ends, count)
  if ends ~= mark then
    return false, ends, count
  end
  count = math.max(0, count - permits)
  -- A window that is yet to begin has taken the place of the present one, which was full.
  if count == 0 and ends - window <= now then
    return false, now, 0
  end
  return false, ends, count
end

local function write(ends, count)
  if is_alone == 1 and count <= 999 and ends >= 10 ^ 14 and ends < 10 ^ 15 then
    return format('%d%03d', ends, count), ends
  end
  return to_bytes('<dd', ends, count), ends
end

-- In digits it was alone, until its policy got a tier.
local function length(text)
  return #text == 18 and string.match(text, '^%d+$') and 18 or 16
end

local function numbers(ends, count)
  return ends - now, count
end
