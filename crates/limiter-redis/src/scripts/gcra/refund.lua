
-- Gives permits of a charge back. Returns how many, the state after it, and for how long that matters; nothing
-- if the state is impossible.
local function gcra_refund(text, quota, increment, capacity, permits, taken_at, mark, _, cost, at)
  local debt, _, scale, is_impossible = gcra_parse(text, now)
  if not debt or is_impossible then
    return
  end
  local is_own = string.match(text, ' (.*)') == quota
  local unit = floor(increment * scale + 0.5)
  local given = 0
  if is_own then
    -- The charge drains from the moment it was made for. What was owed before may have come back since,
    -- so its mark may be too late.
    local left = unit * cost - math.max(now - at, 0) * scale
    given = math.min(unit * permits, left, debt)
    if debt > floor(capacity * scale + 0.5) then
      -- What was reserved behind the charge keeps its moment.
      local behind = debt - (mark - (now - taken_at) * scale)
      given = math.min(given, unit * permits - behind)
    end
    given = math.max(given, 0)
  end
  if given > 0 then
    debt = debt - given
    text = format('%.0f', now + floor(debt / scale)) .. (scale > 1 and format('.%04.0f', debt % scale) or '') .. ' ' .. quota
  end
  -- A permit that has partly recovered counts as one.
  return ceil(given / unit), debt > 0 and text or '-', ceil(debt / scale)
end

refunds.gcra = gcra_refund
