
function takes.strict(text, now, quota, paced, most, cost, latest, at, kind)
  local limit = ledger_limit(quota, paced, most, kind)
  local found, elements = ledger_split(text, limit)
  local fits, state, lasts, remaining, mark, older, is_impossible =
    ledger(found, elements, nil, now, limit, cost, latest, at)
  local written, matters = nil, 0
  if state then
    written, matters = ledger_join(state, now, elements, older)
  end
  return fits, (mark or is_impossible) and written or nil, lasts, remaining, mark, false, matters
end

takes.loose = takes.strict
