-- A state that is one text. Behind it, where there is something to note: until when permits were
-- promised, since when receipts are good, when what they tell of has moved last, and until when the
-- last two matter.
local promised, since, moved, horizon = 0, 0, 0, 0

-- No note is later: 1,900 days, in microseconds, from now.
local far = now + 164160000000000

local function load()
  local text = call('GET', KEYS[1])
  if text and string.find(text, '|', 1, true) then
    local state, p, s, m, h = match(text, '^([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)$')
    if state then
      text = state ~= '' and state or false
      promised, since, moved, horizon = p + 0, math.min(s + 0, now), math.min(m + 0, now), h + 0
      promised = promised > now and promised <= far and promised or 0
      horizon = horizon > now and horizon <= far and horizon or 0
    end
  end
  return text
end

-- Writes a state that counts until a moment. The key lives at least a millisecond more, since the
-- server counts its expiry in milliseconds from the start of this one.
local function store(text, till)
  if promised > now or horizon > now then
    till = math.max(till, promised, horizon)
    text = format('%s|%d|%d|%d|%d', text, promised, since, moved, horizon)
  end
  call('SET', KEYS[1], text, 'PX', format('%d', (till - now) / 1000 + 2))
end

-- Leaves the notes alone, or nothing: an empty text would be one that can't be read.
local function clear()
  if horizon > now then
    store('', now)
  else
    call('DEL', KEYS[1])
  end
end
