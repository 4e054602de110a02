-- A state that is one text, with notes behind it where there is something to note.

local function load()
  local text = call('GET', KEYS[1])
  if text and string.find(text, '|', 1, true) then
    text = without_notes(text)
    return text ~= '' and text
  end
  return text
end

-- Writes a state that counts until a moment. The key lives at least a millisecond more, since the
-- server counts its expiry in milliseconds from the start of this one.
local function store(text, till)
  till = math.max(till, promised, horizon)
  call('SET', KEYS[1], with_notes(text), 'PX', format('%d', (till - now) / 1000 + 2))
end

-- Leaves the notes alone, or nothing: an empty text would be one that can't be read.
local function clear()
  if horizon > now then
    store('', now)
  else
    call('DEL', KEYS[1])
  end
end
