-- A state that is a string of numbers, each a double of eight bytes, little-endian. Where there is
-- something to note, the number -1 and four notes stand before it: no state begins with that number.

-- Whether a number that was found is one of those that are written.
local function is_whole(number)
  return number >= 0 and number <= 2 ^ 53 and number % 1 == 0
end

local function load()
  local text = call('GET', KEYS[1])
  if text and #text >= 40 and from_bytes('<d', text) == -1 then
    local _, p, s, m, h = from_bytes('<ddddd', text)
    if is_whole(p) and is_whole(s) and is_whole(m) and is_whole(h) then
      note(p, s, m, h)
      text = string.sub(text, 41)
    end
    return text ~= '' and text
  end
  return text
end

-- Writes a state that counts until a moment. The key lives at least a millisecond more, since the
-- server counts its expiry in milliseconds from the start of this one.
local function store(text, till)
  if promised > now or horizon > now then
    text = to_bytes('<ddddd', -1, promised, since, moved, horizon) .. text
  end
  till = math.max(till, promised, horizon)
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
