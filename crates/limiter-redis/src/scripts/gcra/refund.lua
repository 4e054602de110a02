
-- Gives permits of a charge back. Returns how many, the state after it, for how long that matters, and whether
-- all of the charge came back; nothing if the state is impossible.
function refunds.gcra(text, now, quota, increment, capacity, permits, cost, taken_at, at, mark)
  local debt, _, scale, is_impossible = gcra_parse(text, now)
  if not debt or is_impossible then
    return
  end
  local unit, given = math.floor(increment * scale + 0.5), 0
  if string.match(text, ' .*') == quota then
    -- The charge drains from the moment it was made for. What was owed before may have come back since,
    -- so its mark may be too late.
    given = math.min(unit * permits, unit * cost - math.max(now - at, 0) * scale, debt)
    if debt > math.floor(capacity * scale + 0.5) then
      -- What was reserved behind the charge keeps its moment.
      given = math.min(given, unit * permits - (debt - mark + (now - taken_at) * scale))
    end
  end
  if given > 0 then
    debt, text = debt - given, gcra_text(now, debt - given, scale, quota)
  end
  -- A permit that has partly recovered counts as one.
  return math.max(math.ceil(given / unit), 0), debt > 0 and text or '-', math.ceil(debt / scale), given == unit * cost
end
