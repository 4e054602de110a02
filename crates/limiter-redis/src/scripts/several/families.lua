
-- What takes from and gives back to a limit of each kind, see `window`.
local takes, refunds = {}, {}

-- Returns the state of the next limit, whose states are joined by `, `, nil if it is fresh; and where the
-- one behind it begins.
local function next_state(text, from)
  local comma = string.find(text, ', ', from, true)
  local state = string.sub(text, from, (comma or 0) - 1)
  return state ~= '-' and state or nil, comma and comma + 2 or #text + 1
end
