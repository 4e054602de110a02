-- GCRA: a debt in ticks of the quota that wrote it, which drains at that quota's pace until another one charges.

-- Reads a debt. One that is damaged or from the future is full.
local function gcra_read(limit)
  local digits, decimals = string.gsub((limit.text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
  local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
  local scale, debt = decimals > 0 and 10000 or 1, not limit.text and 0 or nil
  increment, reach = tonumber(increment), tonumber(reach)
  limit.own_scale = string.find(limit.quota, '.', 1, true) and 10000 or 1
  -- All three numbers have decimals, or none.
  if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
    and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
    debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
  end
  limit.is_damaged = not debt or debt > 0 and debt > reach
  if debt and debt > 0 and string.match(limit.text, ' .*') ~= limit.quota then
    limit.debt, limit.increment, limit.scale = math.min(debt, reach), increment, scale
    limit.writer, limit.is_foreign = string.match(limit.text, ' .*'), true
  else
    limit.debt = limit.is_damaged and limit.permits * limit.number or debt
    limit.increment, limit.scale, limit.writer = limit.number, limit.own_scale, limit.quota
  end
end

-- Returns the state as text, and for how long it matters.
local function gcra_text(limit)
  local debt, scale = limit.debt, limit.scale
  local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
  return string.format('%d', now + math.floor(debt / scale)) .. fraction .. limit.writer, math.ceil(debt / scale)
end
