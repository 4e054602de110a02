-- The sliding counter: two counts, the older of which fades. Its twin is `SlidingCounter` of
-- limiter-core, which does the same in the same words.
--
-- Quota    limit, window: the permits of a window, and its length in microseconds
-- State    when the window after the current one ends, and the permits taken in the current one and
--          in the one before; a fresh one has counts of zero
-- Text     all three, and the window by which it was counted
-- Numbers  the time until the end, current, previous

-- Returns how much of a window has to pass until `count` permits of the one before count for no more
-- than `room`: window - room * window / count, whose product would be too large.
local function fades_to(room, count, window)
  if count <= room then
    return 0
  end
  local rest = window % count
  return window - room * ((window - rest) / count) - math.floor(room * rest / count)
end

-- Returns how many of `previous` permits count when so much of the window has passed, rounded up.
local function faded(previous, elapsed, window)
  local count = math.ceil(previous * ((window - elapsed) / window))
  while count > 0 and fades_to(count - 1, previous, window) <= elapsed do
    count = count - 1
  end
  while fades_to(count, previous, window) > elapsed do
    count = count + 1
  end
  return count
end

-- The counts in the window that `at` is in.
local function advanced(at, ends, current, previous, window)
  local elapsed = at + 2 * window - ends
  if elapsed >= 2 * window then
    current, previous = 0, 0
  elseif elapsed >= window then
    ends, current, previous, elapsed = ends + window, 0, current, elapsed - window
  end
  -- The next window begins with its first use, unless one that is yet to begin has taken the place
  -- of the present one, which was full.
  if elapsed >= 0 and current == 0 and previous == 0 then
    return at + 2 * window, 0, 0
  end
  return ends, current, previous
end

local function read(text, latest)
  if not text then
    return false, now + 2 * window, 0, 0
  end
  local ends, current, previous, old_window = -1, 0, 0, 0
  if #text == 32 then
    ends, current, previous, old_window = from_bytes('<dddd', text)
  end
  local are_whole = is_whole(ends) and is_whole(current) and is_whole(previous) and is_whole(old_window)
  -- In milliseconds, from one to those of 366 days.
  if not are_whole or old_window % 1000 > 0 or old_window < 1000 or old_window > 31622400000000 then
    return true, now + 2 * window, limit, 0
  end
  local most = 94906265
  current, previous = math.min(current, most), math.min(previous, most)
  local healed = ends > latest + 2 * old_window
  if healed then
    ends = latest + 2 * old_window
  end
  ends, current, previous = advanced(now, ends, current, previous, old_window)
  if old_window == window then
    return healed, ends, current, previous
  end
  -- Another quota's: what still counts begins to count anew. A window that is yet to begin, after a
  -- full one, begins when it was to.
  local elapsed = now + 2 * old_window - ends
  if previous > 0 then
    current = current + (elapsed > 0 and faded(previous, elapsed, old_window) or previous)
  end
  return true, now + 2 * window + (elapsed < 0 and -elapsed or 0), math.min(current, most), 0
end

local function wait(cost, from, ends, current, previous)
  local room = limit - cost
  if room < 0 then
    return math.huge
  end
  local fits_at
  if current <= room then
    fits_at = ends - 2 * window + fades_to(room - current, previous, window)
  else
    -- In the next window, where this one is the previous.
    fits_at = ends - window + fades_to(room, current, window)
  end
  return fits_at > from and fits_at - from or 0
end

local function charge(cost, at, ends, current, previous)
  ends, current, previous = advanced(at, ends, current, previous, window)
  return ends, current + cost, previous
end

local function owe(cost, at, ends, current, previous)
  ends, current, previous = charge(cost, at, ends, current, previous)
  return ends, math.min(current, limit), previous
end

local function refund(permits, cost, at, has_moved, mark, mark_rem, ends, current, previous)
  if mark == ends then
    current = math.max(0, current - permits)
  elseif mark + window == ends then
    previous = math.max(0, previous - permits)
  end
  return false, ends, current, previous
end

local function write(ends, current, previous)
  return to_bytes('<dddd', ends, current, previous, window), ends
end

local function length()
  return 32
end

local function numbers(ends, current, previous)
  return ends - now, current, previous
end
