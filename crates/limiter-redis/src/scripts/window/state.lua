-- The fixed and the aligned window: a count that starts again with each window.
--
-- State    `end window reach count`: when the window ends, its length, how far ahead its end may be (the
--          length and the horizon), and the permits taken in it. In microseconds, the end in Unix time.
--          No key, no permits taken.

-- Returns the end of a state's window, its length, count and reach, zeros if it is fresh. Returns nothing if
-- no quota has its numbers.
local function window_parse(text, now)
  local ends, window, reach, count = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
  if not ends or #ends ~= 16 then
    return
  end
  ends, window, reach, count = tonumber(ends), tonumber(window), tonumber(reach), tonumber(count)
  if window >= 1000 and window <= 31622400000000 and window <= reach and reach <= 189734400000000
    and count <= 158112000000000 then
    -- A window whose permits all came back is fresh once it begins.
    if (count > 0 and ends or ends - window) <= now then
      return 0, 0, 0, 0
    end
    return ends, window, count, reach
  end
end
