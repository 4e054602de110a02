
-- As one of several limits: `slot span horizon at count at count ...`, the oldest entry first.

local function ledger_read(limit, text)
  limit.header, limit.first, limit.last, limit.total = limit, 1, 0, 0
  if text then
    local numbers = {}
    for number in string.gmatch(text, '%S+') do
      numbers[#numbers + 1] = string.find(number, '^%d+$') and #number <= 16 and tonumber(number) or -1
    end
    limit.header = header_of(numbers[1], numbers[2], numbers[3])
    for i = 4, #numbers, 2 do
      local at, count = numbers[i], numbers[i + 1]
      if not count or count <= 0 or at <= (limit.at[limit.last] or -1) then
        limit.header = nil
        break
      end
      limit.last, limit.total = limit.last + 1, limit.total + count
      limit.at[limit.last], limit.count[limit.last] = at, count
    end
  end
  return ledger_advance(limit)
end

local function ledger_text(limit)
  local header, texts, newest = limit.header, {}, nil
  for i = limit.first, limit.last do
    if limit.count[i] > 0 then
      texts[#texts + 1], newest = format(' %.0f %.0f', limit.at[i], limit.count[i]), limit.at[i]
    end
  end
  if not newest then
    return '-', 0
  end
  local head = format('%.0f %.0f %.0f', header.slot, header.span, header.horizon)
  return head .. table.concat(texts), end_of(header, newest) - now
end

local function ledger_of(quota, horizon, most, rest)
  local slot, span = string.match(quota, '(%S+) (%S+)')
  local loose, slots = string.match(rest, '(%S+) (%S+)')
  return ledger.open(slot, span, horizon, most, loose, slots)
end

function takes.ledger(text, quota, horizon, most, cost, latest, at, rest)
  local limit = ledger_of(quota, horizon, most, rest)
  local is_possible = ledger_read(limit, text)
  local fits, mark, written, matters = ledger.fits(limit, cost, at or now), nil, nil, nil
  if fits <= latest then
    mark = ledger.charge(limit, cost, fits)
  end
  if mark or not is_possible then
    written, matters = ledger_text(limit)
  elseif limit.first <= limit.last then
    matters = end_of(limit.header, limit.at[limit.last]) - now
  end
  local reset, remaining = ledger.usage(limit)
  return fits, written, reset, remaining, mark, false, matters
end
