-- Windows: a count that starts again with each window. The sliding counter has the count of the one before, too.
--
-- State    `end length reach count`, and for the sliding counter ` previous`: when the window ends, its length,
--          how far ahead its end may be (the length and the horizon), the permits taken in it, and those in the
--          one before. In microseconds, the end in Unix time. No key, no permits taken.
-- Kinds    `fixed`: windows open with the first permit after the last window; `aligned`: they open at each
--          multiple of their length in Unix time; `counter`: the sliding counter

-- Returns the end of a state's window, its count, length, reach and the count before, zeros if none counts. Returns
-- nothing if no quota has these numbers.
local function window_parse(text, now, kind)
  local ends, length, reach, count, previous = string.match(text, '^(%d+) (%d+) (%d+) (%d+)( ?%d*)$')
  if not ends or #ends ~= 16 or (kind == 'counter') ~= (#previous > 1) or previous == ' ' then
    return
  end
  ends, length, reach, count, previous = ends + 0, length + 0, reach + 0, count + 0, tonumber(previous) or 0
  if length >= 1000 and length <= 31622400000000 and length <= reach and reach <= 189734400000000
    and count <= 158112000000000 and previous <= 158112000000000 then
    if kind == 'counter' and ends <= now then
      ends, count, previous = ends + length, 0, count
    end
    -- A window whose permits all came back is fresh once it begins.
    if (count + previous > 0 and ends or ends - length) <= now then
      return 0, 0, 0, 0, 0
    end
    return ends, count, length, reach, previous
  end
end
