
-- Takes a cost from a state of the sliding counter, as `window` does. The permits of the current window fade in
-- the next one, where it is the previous.
local function counter(text, now, quota, length, limit, cost, latest, at)
  local ends, current, previous, old_length, reach, is_impossible = 0, 0, 0, 0, 0, false
  if text then
    ends, current, old_length, reach, previous = window_parse(text, now, 'counter')
    is_impossible = not ends or ends > now + reach
    if is_impossible then
      -- Full, by the length and the counts of the quota that wrote it, which may be larger.
      old_length, reach = old_length or length, reach or tonumber(string.match(quota, '(%d+) $'))
      ends, current, previous = now + old_length, math.max((current or 0) + (previous or 0), limit), 0
    end
  end
  -- In the current window, or in the next, where this one is the previous.
  local begins, room, fits = ends - old_length, limit - cost, now
  if room < 0 then
    fits = math.huge
  elseif current > room then
    fits = ends + scaled(current - room, old_length, current)
  elseif current + previous > room then
    fits = math.max(now, begins + scaled(current + previous - room, old_length, previous))
  elseif begins > now then
    fits = begins
  end
  local is_admitted = fits <= latest
  if is_admitted then
    at = at or fits
    if ends > 0 and ends <= at then
      ends, current, previous = ends + old_length, 0, current
    end
    -- A charge under another length opens a window with all that counts.
    if ends <= at or old_length ~= length or current + previous == 0 then
      if previous > 0 and ends > at then
        current = current + scaled(math.min(ends - at, old_length), previous, old_length)
      end
      ends, old_length, previous = at + length, length, 0
    end
    current = current + cost
  end
  -- Nothing is left of the present once a later window is in use.
  local remaining, lasts = 0, ends - now
  if ends - old_length <= now then
    remaining = limit - current - (previous > 0 and scaled(ends - now, previous, old_length) or 0)
  end
  lasts = lasts + (current > 0 and old_length or previous == 0 and -old_length or 0)
  local writer = is_admitted and quota or is_impossible and string.format(' %d %d ', old_length, reach)
  local written = writer and string.format('%d%s%d %d', ends, writer, current, previous)
  return fits, written, math.max(lasts, 0), math.max(remaining, 0), is_admitted and ends - now or nil
end
