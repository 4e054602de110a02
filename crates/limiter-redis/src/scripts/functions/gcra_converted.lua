-- Returns a debt of one quota in the ticks of another: as many permits, rounded up to a tick.
local function gcra_converted(debt, old_increment, increment)
  local rest = debt % old_increment
  return (debt - rest) / old_increment * increment + scaled(rest, increment, old_increment)
end
