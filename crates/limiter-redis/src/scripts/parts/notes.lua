-- What is rare, and stands behind a state: until when permits were promised, since when receipts are
-- good, when what they tell of has moved last, and until when the last two matter.
local promised, since, moved, horizon = 0, 0, 0, 0

-- No note is later: 1,900 days, in microseconds, from now.
local far = now + 164160000000000

-- Returns what stands before the notes, and sees them.
local function without_notes(text)
  local state, p, s, m, h = match(text, '^([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)$')
  if not state then
    return text
  end
  promised, since, moved, horizon = p + 0, math.min(s + 0, now), math.min(m + 0, now), h + 0
  promised = promised > now and promised <= far and promised or 0
  horizon = horizon > now and horizon <= far and horizon or 0
  return state
end

local function with_notes(text)
  if promised > now or horizon > now then
    return format('%s|%d|%d|%d|%d', text, promised, since, moved, horizon)
  end
  return text
end
