-- GCRA: a debt that drains.
--
-- State    `TAT increment reach`: when the debt is paid off, by how much a permit raises it, and the
--          largest debt that the quota leaves (its capacity and its horizon). In microseconds, the TAT in
--          Unix time; with four decimals each where the time of a permit is not whole. No key, no debt.
-- Ticks    are microseconds, or their ten-thousandths where the quota has decimals. A microsecond has
--          `scale` of them.

-- Returns the debt of a state of any quota in its own ticks, its increment and its scale, and whether the
-- quota can't have left the debt: then it is the largest that it can leave. Returns nothing if no quota
-- has these numbers.
local function gcra_parse(text, now)
  local tat, part, increment, increment_part, reach, reach_part =
    string.match(text, '^(%d+)%.?(%d*) (%d+)%.?(%d*) (%d+)%.?(%d*)$')
  if not tat or #tat ~= 16 or #part ~= #increment_part or #part ~= #reach_part then
    return
  end
  local scale = #part > 0 and 10000 or 1
  local debt = (tat - now) * scale + (tonumber(part) or 0)
  increment, reach = (increment .. increment_part) + 0, (reach .. reach_part) + 0
  if (#part == 0 or #part == 4) and increment > 0 and increment <= 31622400000000 and increment <= reach
    and reach <= 400000000000000 * scale and reach <= 2 ^ 53 then
    return math.min(math.max(debt, 0), reach), increment, scale, debt > reach
  end
end

-- Returns the state of a debt in ticks by ` increment reach`.
local function gcra_text(now, debt, scale, quota)
  if scale == 1 then
    return string.format('%d', now + debt) .. quota
  end
  return string.format('%d.%04d', now + math.floor(debt / scale), debt % scale) .. quota
end
