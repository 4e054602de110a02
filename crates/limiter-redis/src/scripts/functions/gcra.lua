-- Returns the debt of a state in ticks of the quota that wrote it; its increment, its ticks of a microsecond, and its
-- text; and whether the state is damaged or from the future, and so a full debt. A debt drains at the pace of the quota
-- that wrote it until another one charges.
local function gcra_read(text, quota, burst, own_increment)
  local digits, decimals = string.gsub((text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
  local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
  -- False if the text can't be read. All three numbers have decimals, or none.
  local debt, scale, writer = not text and 0, decimals > 0 and 10000 or 1, text and string.match(text, ' .*')
  increment, reach = tonumber(increment), tonumber(reach)
  if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
    and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
    debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
  end
  local is_damaged = not debt or debt > 0 and debt > reach
  if debt and debt > 0 and writer ~= quota then
    return math.min(debt, reach), increment, scale, writer, is_damaged
  end
  scale = string.find(quota, '.', 1, true) and 10000 or 1
  return is_damaged and burst * own_increment or debt, own_increment, scale, quota, is_damaged
end

-- Returns a debt as the text of a state.
local function gcra_text(debt, scale, quota)
  local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
  return string.format('%d', now + math.floor(debt / scale)) .. fraction .. quota
end
