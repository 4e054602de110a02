
-- Windows open at each multiple of their length in Unix time.
local function aligned(text, quota, window, limit, cost, latest, at)
  return window_take(text, quota, window, limit, cost, latest, at, true)
end
local take = aligned
