
-- Several limits, all or nothing. Their states share a key, joined by `, `; `-` is a fresh one.

-- Returns the limits of their quotas, `family quota number number ...`, each with its state as text.
local function limits_of(quotas, text)
  local limits, states, n = {}, {}, 0
  for state in string.gmatch((text or '') .. ',', ' ?([^,]*),') do
    n = n + 1
    states[n] = state
  end
  n = 0
  for family, quota, a, b, rest in string.gmatch(quotas, '(%a+) (%S+ %S+) (%S+) ([^ ,]+) ?([^,]*)') do
    n = n + 1
    local state = text and (states[n] or '') or '-'
    limits[n] = { family = family, quota = quota, a = tonumber(a), b = tonumber(b), rest = rest,
      state = state ~= '-' and state, written = nil, lasts = 0, remaining = 0, mark = nil, matters = nil }
  end
  return limits
end
