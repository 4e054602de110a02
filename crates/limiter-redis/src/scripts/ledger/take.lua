
-- Takes a cost from a state, nil if fresh and false if impossible, at the moment at which it fits, or at a later
-- one, `at`, unless that is later than `latest`.
--
-- Returns  when it fits (math.huge for never); the state then, nil if fresh, of whose oldest entries so many are
--          `dropped` (-1 if all are); the time until nothing counts; the permits that remain; the mark of the charge,
--          if any, which is the time until its entry; the entry that is no longer the newest, if any; and
--          whether the state was impossible
local function ledger(state, elements, key, now, limit, cost, latest, at)
  if state and state.newest - state.newest % state.slot + state.span <= now then
    state = nil
  end
  local is_impossible = state == false or state and state.newest > now + math.max(state.horizon, state.slot)
  if is_impossible then
    -- Full, as long and as much as the quotas count that wrote it. A loose window counts the present slot for
    -- less than a whole window.
    local old, full_at = state or limit, now + (limit.is_loose and -now % limit.slot or 0)
    local is_same = old.slot == limit.slot and old.span == limit.span
    local total = math.max(old.total or 0, limit.most)
    elements, key = { '' }, nil
    state = { newest = full_at, count = total, total = total, dropped = -1, slot = is_same and limit.slot or 1,
      span = math.max(limit.span, old.span), horizon = math.max(limit.horizon, old.horizon, full_at - now) }
  end
  local fits, room, present = at or now, limit.most - cost, 0
  local never = cost > (limit.paced > 0 and math.ceil(limit.most / limit.paced) or limit.most)
  if state then
    -- From the oldest entry on: those that are over, and those that have to be before the cost fits.
    local from, i, sum = fits, 1, state.total
    local when, count = ledger_entry(state, elements, key, 1)
    present = sum
    while when do
      local over = ledger_over(limit, state, when)
      if over > from and (sum <= room or never) then
        break
      end
      sum, fits = sum - count, math.max(fits, over)
      if over <= now then
        present = present - count
      end
      if when - when % state.slot + state.span <= now then
        state.dropped, state.total = i, state.total - count
      end
      i = i + 1
      when, count = ledger_entry(state, elements, key, i)
    end
    -- Behind what was promised for later.
    fits = math.max(fits, state.newest - state.newest % limit.slot)
  end
  local room_in_slot, mark, older = math.huge, nil, nil
  if limit.paced > 0 then
    room_in_slot = select(2, ledger_pace(state or limit, elements, key, limit, 0, now))
    fits = ledger_pace(state or limit, elements, key, limit, cost, fits)
  end
  if fits <= latest and not never then
    present, room_in_slot = present + cost, room_in_slot - cost
    state = state or { newest = fits, count = 0, total = 0, slot = limit.slot, span = limit.span, horizon = 0,
      dropped = -1 }
    -- Slots of two lengths share no grid.
    state.slot = state.slot == limit.slot and state.span == limit.span and limit.slot or 1
    state.span, state.horizon = math.max(limit.span, state.span), math.max(limit.horizon, state.horizon)
    if state.newest - state.newest % limit.slot < fits - fits % limit.slot then
      older, state.count = string.format('%d %d', state.newest, state.count), 0
    end
    state.newest, state.count, state.total = math.max(state.newest, fits), state.count + cost, state.total + cost
    mark = state.newest - now
  end
  local lasts, remaining = 0, math.max(math.min(limit.most - present, room_in_slot), 0)
  if state then
    lasts = math.max(ledger_over(limit, state, state.newest) - now, 0)
    -- Nothing is left of the present once a later slot is in use.
    remaining = state.newest - state.newest % limit.slot <= now and remaining or 0
  end
  return never and math.huge or fits, state, lasts, remaining, mark, older, is_impossible
end
