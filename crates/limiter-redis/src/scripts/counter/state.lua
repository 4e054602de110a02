-- The sliding counter: two windows' counts, the older of which fades.
--
-- State    `end window reach current previous`: when the current window ends, its length, how far ahead its
--          end may be (the length and the horizon), and the permits taken in it and in the one before. In
--          microseconds, the end in Unix time. No key, no permits taken.

-- Returns the end of a state's current window, its length, both counts and its reach, zeros if none counts. Returns
-- nothing if no quota has its numbers.
local function counter_parse(text, now)
  local ends, window, reach, current, previous = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not ends or #ends ~= 16 then
    return
  end
  ends, window, reach = tonumber(ends), tonumber(window), tonumber(reach)
  current, previous = tonumber(current), tonumber(previous)
  if window >= 1000 and window <= 31622400000000 and window <= reach and reach <= 189734400000000
    and current <= 158112000000000 and previous <= 158112000000000 then
    if ends <= now then
      ends, current, previous = ends + window, 0, current
    end
    if ends <= now or ends <= now + window and current + previous == 0 then
      return 0, 0, 0, 0, 0
    end
    return ends, window, current, previous, reach
  end
end
