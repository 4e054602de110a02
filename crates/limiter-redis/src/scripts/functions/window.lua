-- Windows: `past count`, or of a sliding counter `past count before`: when the window is past, the permits taken in it, and
-- those of the window before, which fade. A counter's window is past a length after its end. A window that is reserved for
-- later decides, in front of the present one, which decides again if all of that is refunded.

-- Returns when a window ends that opens at a moment.
local function window_end(kind, length, at)
  return at + length - (kind == 'aligned' and at % length or 0)
end

-- Returns when the window of a text ends, its permits, those of the window before, and the text of older ones; nil if the text
-- is not a window.
local function window_parse(kind, length, text)
  local fades = kind == 'counter'
  local past, count, before, older =
    string.match(text, fades and '^(%d+) (%d+) (%d+)(.*)$' or '^(%d+) (%d+)()(.*)$')
  if past and #past == 16 and #count < 16 and (not fades or #before < 16) then
    return past - (fades and length or 0), count + 0, fades and before + 0 or 0, older
  end
end

-- Returns the same of the window that a moment is in, or of one that is reserved for later; of an empty one if nothing counts
-- any more.
local function window_at(kind, length, at, ends, count, before)
  if kind == 'counter' and ends <= at then
    ends, count, before = ends + length, 0, count
  end
  if ends <= at or count + before == 0 then
    return window_end(kind, length, at), 0, 0
  end
  return ends, count, before
end

-- Returns the same of the newest window of a field, and whether the text is damaged, or the window too far ahead: then it is full.
local function window_read(kind, permits, length, ahead, text)
  if not text then
    return now, 0, 0, '', false
  end
  local ends, count, before, older = window_parse(kind, length, text)
  if ends and ends <= now + ahead then
    return ends, count, before, older, false
  end
  -- The present aligned window may be about to end, so the next one is full, too.
  local full = window_end(kind, length, now) + (kind == 'aligned' and length or 0)
  return full, math.max(ends and count + before or 0, permits), 0, '', true
end

-- Returns the first moment from one on at which a cost fits.
local function window_fits(kind, permits, length, cost, from, ends, count, before)
  local room = permits - cost
  if room < 0 then
    return math.huge
  elseif count > 0 and ends - length > from then
    from = ends - length
  end
  ends, count, before = window_at(kind, length, from, ends, count, before)
  local excess = count + before - room
  if count <= room then
    ends = ends - length + (excess > 0 and scaled(excess, length, before) or 0)
  elseif kind == 'counter' then
    -- In the next window, in which the permits of this one fade.
    ends = ends + scaled(count - room, length, count)
  end
  return math.max(ends, from)
end

-- Returns how long the permits last, how many are left, and the window that has those of the present.
local function window_usage(kind, permits, length, ends, count, before)
  ends, count, before = window_at(kind, length, now, ends, count, before)
  local reset = count + before > 0 and ends - now + (kind == 'counter' and count > 0 and length or 0) or 0
  if ends - length > now then
    return reset, 0, ends, count, before
  elseif before > 0 then
    permits = permits - scaled(ends - now, before, length)
  end
  return reset, permits > count and permits - count or 0, ends, count, before
end

local function window_text(kind, length, ends, count, before)
  if kind == 'counter' then
    return string.format('%d %d %d', ends + length, count, before)
  end
  return string.format('%d %d', ends, count)
end
