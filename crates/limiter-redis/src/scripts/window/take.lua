
-- Takes a cost from a state at the moment at which it fits, or at a later one, `at`, unless that is later than
-- `latest`.
--
-- Returns  when it fits (math.huge for never); the state that is to be written, if any; for how many microseconds
--          the state matters, which is until it is fresh; the permits that remain; the mark of the charge if
--          there was one, which is the time until its window ends; and whether nothing can be promised behind it
local function window_take(text, quota, window, limit, cost, latest, at, is_aligned)
  local ends, old_window, count, reach = 0, 0, 0, 0
  if text then
    ends, old_window, count, reach = window_parse(text, now)
  end
  local is_impossible = not ends or ends > now + reach
  if is_impossible then
    if not ends then
      old_window, count, reach = window, limit, tonumber(string.match(quota, '%d+$'))
    end
    -- Full, by the length and the count of the quota that wrote it, which may be larger.
    ends, count = now + old_window, math.max(count, limit)
    if is_aligned then
      -- The present window may be about to end, so the next one is full too.
      ends = now - now % old_window + 2 * old_window
    end
    reach = math.max(reach, ends - now)
  end
  -- A window by the clock may be open already when one of another length ends.
  local is_stuck = is_aligned and ends > 0 and old_window ~= window
  if is_stuck then
    latest = math.min(latest, now)
  end
  -- In this window, which may be one that was reserved, or after it.
  local fits = math.max(now, ends - old_window)
  if cost > limit then
    fits = math.huge
  elseif ends > now and count + cost > limit then
    fits = ends
  end
  local is_admitted = fits <= latest
  if is_admitted then
    at = at or fits
    if ends <= at then
      count = 0
    end
    -- A charge under another length keeps the count.
    if ends <= at or old_window ~= window then
      ends, old_window = at + window - (is_aligned and at % window or 0), window
    end
    count = count + cost
  end
  -- Nothing is left of the present once a later window is in use.
  local remaining = ends - old_window <= now and math.max(limit - count, 0) or 0
  local written
  if is_admitted then
    written = format('%.0f %s %.0f', ends, quota, count)
  elseif is_impossible then
    written = format('%.0f %.0f %.0f %.0f', ends, old_window, reach, count)
  end
  local fresh_at = count > 0 and ends or ends - old_window
  return fits, written, math.max(fresh_at - now, 0), remaining, is_admitted and ends - now, is_stuck
end
