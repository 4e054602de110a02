-- Returns the debt of a state in ticks, and of the quota that wrote it: its increment, the ticks of a microsecond, and
-- its text. The debt drains at the pace of that quota until another one charges. A debt that no quota can have left
-- becomes a full one: returns this last.
local function gcra_read(text, quota, burst, own_increment)
  local digits, decimals = string.gsub((text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
  local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
  local debt, scale, writer = not text and 0, decimals > 0 and 10000 or 1, text and string.match(text, ' .*')
  increment, reach = tonumber(increment), tonumber(reach)
  if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
    and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
    debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
  end
  local is_impossible = not debt or debt > 0 and debt > reach
  if debt and debt > 0 and writer ~= quota then
    return math.min(debt, reach), increment, scale, writer, is_impossible
  end
  scale = string.find(quota, '.', 1, true) and 10000 or 1
  return is_impossible and burst * own_increment or debt, own_increment, scale, quota, is_impossible
end

-- Returns a debt of one quota in the ticks of another: as many permits, rounded up to a tick.
local function gcra_converted(debt, old_increment, increment)
  local rest = debt % old_increment
  return (debt - rest) / old_increment * increment + scaled(rest, increment, old_increment)
end

-- Returns the state that says a debt.
local function gcra_text(debt, scale, quota)
  local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
  return string.format('%d', now + math.floor(debt / scale)) .. fraction .. quota
end
