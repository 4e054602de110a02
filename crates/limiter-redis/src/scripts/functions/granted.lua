-- Returns how many permits to charge for a check that may become a lease: of those that are wanted, as many as there are
-- in half of the room, or in all of it if it is little; at least the cost.
local function granted(cost, wanted, room, little)
  if room > little then
    room = math.floor(room / 2)
  end
  return math.max(cost, math.min(wanted, room))
end
