
-- Takes a cost from a state, and returns the same as `window_take`. The mark is the time until the window of the
-- charge ends.
local function counter(text, quota, window, limit, cost, latest, at)
  local ends, old_window, current, previous, reach = 0, 0, 0, 0, 0
  if text then
    ends, old_window, current, previous, reach = counter_parse(text, now)
  end
  local is_impossible, room = not ends or ends > now + reach, limit - cost
  if is_impossible and ends then
    -- Full, by the length and the counts of the quota that wrote it, which may be larger.
    ends, current, previous = now + old_window, math.max(current + previous, limit), 0
  elseif is_impossible then
    ends, old_window, current, previous, reach = now + window, window, limit, 0, tonumber(string.match(quota, '%d+$'))
  end
  -- In the current window, or in the next, where this one is the previous.
  local fits = math.max(now, ends - old_window)
  if room < 0 then
    fits = math.huge
  elseif current > room then
    fits = ends + scaled(current - room, old_window, current)
  elseif current + previous > room then
    fits = math.max(now, ends - old_window + scaled(current + previous - room, old_window, previous))
  end
  local is_admitted = fits <= latest
  if is_admitted then
    at = at or fits
    if ends > 0 and ends <= at then
      ends, current, previous = ends + old_window, 0, current
    end
    local counts = current
    if previous > 0 and ends > at then
      counts = counts + scaled(math.min(ends - at, old_window), previous, old_window)
    end
    -- A charge under another length opens a window with all that counts.
    if counts == 0 or ends <= at or old_window ~= window then
      ends, old_window, current, previous = at + window, window, counts, 0
    end
    current = current + cost
  end
  local remaining, fresh_at = limit - current, ends
  if previous > 0 then
    remaining = remaining - scaled(math.min(ends - now, old_window), previous, old_window)
  end
  if current > 0 then
    fresh_at = ends + old_window
  elseif previous == 0 then
    fresh_at = ends - old_window
  end
  -- Nothing is left of the present once a later window is in use.
  remaining = ends - old_window <= now and math.max(remaining, 0) or 0
  local written
  if is_admitted then
    written = format('%.0f %s %.0f %.0f', ends, quota, current, previous)
  elseif is_impossible then
    written = format('%.0f %.0f %.0f %.0f %.0f', ends, old_window, reach, current, previous)
  end
  return fits, written, math.max(fresh_at - now, 0), remaining, is_admitted and ends - now, false,
    ends > 0 and ends + old_window - now or 0
end
local take = counter
