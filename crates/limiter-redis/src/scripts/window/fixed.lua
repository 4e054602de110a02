
-- Windows open with the first permit after the last window.
local function fixed(text, quota, window, limit, cost, latest, at)
  return window_take(text, quota, window, limit, cost, latest, at, false)
end
local take = fixed
