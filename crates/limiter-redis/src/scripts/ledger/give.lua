
-- Gives permits of a charge back to its entry, the newest one or one of so many older ones, of a list at a key or
-- of other elements. Returns how many: none if the entry has fewer than `least`.
local function ledger_give(state, elements, key, older, limit, permits, least, mark)
  -- The oldest entry that is not before the mark: permits that joined it since have moved its time.
  local low, high = 0, older
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if (ledger_entry(state, elements, key, -middle) or 0) >= mark then
      low = middle
    else
      high = middle - 1
    end
  end
  local at, count = state.newest, state.count
  if low > 0 then
    at, count = ledger_entry(state, elements, key, -low)
  end
  if at < mark or at - at % limit.slot ~= mark - mark % limit.slot or count < least then
    return 0
  end
  permits = math.min(permits, count)
  state.total = state.total - permits
  if low == 0 then
    state.count = count - permits
  elseif key then
    redis.call('LSET', key, -low, string.format('%d %d', at, count - permits))
  else
    elements[#elements + 1 - low] = string.format('%d %d', at, count - permits)
  end
  -- Nothing is behind an entry of which all came back.
  while state.count == 0 and state.total > 0 do
    state.newest, state.count = ledger_entry(state, elements, key, -1)
    state.total = state.count and state.total or 0
    if key then
      redis.call('RPOP', key)
    else
      table.remove(elements)
    end
  end
  return permits
end
