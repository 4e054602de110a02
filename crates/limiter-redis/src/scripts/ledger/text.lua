
-- As one of several limits.

-- Returns the state of a text, nil if fresh and false if impossible, and its elements.
local function ledger_split(text, limit)
  if not text then
    return nil, {}
  end
  local head = string.match(text, '^%d+ %d+ %d+ %d+ %d+ %d+') or ''
  local state, elements = ledger_parse(head, limit), { head }
  for at, count in string.gmatch(string.sub(text, #head + 1), '(%d+) (%d+)') do
    elements[#elements + 1] = at .. ' ' .. count
    state = #at == 16 and #count <= 16 and state
  end
  return table.concat(elements, ' ') == text and state, elements
end

-- Returns a state as text, and for how long it matters.
local function ledger_join(state, now, elements, older)
  local first = state.dropped + 1
  if first == 0 then
    elements, first = {}, 1
  end
  elements[first] = ledger_text(state)
  elements[#elements + 1] = older
  return table.concat(elements, ' ', first), state.newest - state.newest % state.slot + state.span - now
end
