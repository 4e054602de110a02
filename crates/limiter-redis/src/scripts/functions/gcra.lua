-- GCRA: a debt in ticks, 1 or 10000 in a microsecond. Its text is the theoretical arrival time (TAT), at which it is
-- paid off, in microseconds of Unix time, with four decimals if a permit does not add a whole number of them.

-- Returns the debt of a text, and whether none is that large under any quota of the span: then it is a whole burst.
local function gcra_read(text, scale, capacity, most)
  if not text then
    return 0, false
  end
  local tat, part = #text == 16 and not string.find(text, '%D') and text, 0
  if not tat and #text == 21 then
    tat, part = string.match(text, '^(%d+)%.(%d%d%d%d)$')
  end
  local debt = tat and math.max((tat - now) * scale + math.ceil(part * scale / 10000), 0) or math.huge
  if debt > capacity and debt > most * 513 / 512 + 10 * scale then
    return capacity, true
  end
  return debt, false
end

-- Returns the text of a debt, or the number that becomes it.
local function gcra_text(debt, scale)
  return scale == 1 and now + debt or string.format('%d.%04d', now + math.floor(debt / scale), debt % scale)
end
