
-- Returns when a cost fits into a slot of a paced window, from a moment on at which no later slot has entries;
-- and how many permits fit into the slot of that moment.
local function ledger_pace(state, elements, key, limit, cost, at)
  local number, even, rest = math.floor(at / limit.slot), math.floor(limit.most / limit.paced), limit.most % limit.paced
  local begins, within = number * limit.slot, number % limit.paced
  -- The ceilings of two slots differ by at most one.
  local room = even + math.floor(rest * (within + 1) / limit.paced) - math.floor(rest * within / limit.paced)
  -- Another quota may have left several entries in this slot.
  local entries, when, count = {}, state.newest, state.count
  while when and when >= begins and ledger_over(limit, state, when) > at do
    entries[#entries + 1], room = { when, count }, room - count
    when, count = ledger_entry(state, elements, key, -#entries)
  end
  local left, fits, i = room, at, #entries
  while left < cost and i > 0 do
    fits, left, i = math.max(fits, ledger_over(limit, state, entries[i][1])), left + entries[i][2], i - 1
  end
  if left < cost or fits >= begins + limit.slot then
    number, within = number + 1, (number + 1) % limit.paced
    if cost > even then
      -- Of the slots with one permit more, the first in which the rest, spread evenly, reaches the next whole.
      number = number - within + math.ceil((math.floor(within * rest / limit.paced) + 1) * limit.paced / rest) - 1
    end
    fits = number * limit.slot
  end
  return fits, math.max(room, 0)
end
