
function refunds.strict(text, now, quota, paced, most, permits, cost, taken_at, _, mark, kind)
  local limit = ledger_limit(quota, paced, most, kind)
  local found, elements = ledger_split(text, limit)
  local _, state, _, _, _, _, is_impossible = ledger(found, elements, nil, now, limit, 0, -1)
  if is_impossible then
    return
  end
  local given, older = 0, state and #elements - 1 - state.dropped
  if state then
    given = ledger_give(state, elements, nil, older, limit, permits, 1, taken_at + mark)
  end
  if not state or state.total == 0 then
    return given, '-', 0, given == cost
  end
  local written, lasts = ledger_join(state, now, elements)
  return given, written, lasts, given == cost
end

refunds.loose = refunds.strict
