
-- Takes a cost from a state at the moment at which it fits, or at a later one, `at`, unless that is later than
-- `latest`. The quota is ` increment reach`, as it ends a state.
--
-- Returns  when it fits (math.huge for never); the state that is to be written, if any; for how many microseconds
--          the state matters, which is until it is fresh; the permits that remain; the mark of the charge, if
--          any, which is the debt after it; and whether nothing can be promised behind the state
local function gcra(text, now, quota, increment, capacity, cost, latest, at)
  local debt, scale, is_impossible = 0, 1, false
  if increment % 1 > 0 then
    scale, increment, capacity = 10000, math.floor(increment * 10000 + 0.5), math.floor(capacity * 10000 + 0.5)
  end
  -- Of a debt of another quota, which drains at that quota's pace until this one charges.
  local old_debt, old_increment, old_scale
  if text then
    local is_own = string.sub(text, scale == 1 and 17 or 22) == quota
    debt = is_own and scale == 1 and (tonumber(string.sub(text, 1, 16)) or 0) - now or -1
    if not (debt >= 0 and debt <= capacity) then
      debt, old_increment, old_scale, is_impossible = gcra_parse(text, now)
      if not debt or is_own and is_impossible then
        debt, is_impossible = capacity, true
      elseif not is_own and debt > 0 then
        local rest = debt % old_increment
        old_debt, debt = debt, (debt - rest) / old_increment * increment + scaled(rest, increment, old_increment)
      end
    end
  end
  local room, fits = capacity - increment * cost, now
  if room < 0 then
    fits = math.huge
  elseif debt > room and old_debt then
    fits, latest = now + math.ceil((old_debt - room / increment * old_increment) / old_scale), -1
  elseif debt > room then
    fits = now + math.ceil((debt - room) / scale)
  end
  if fits <= latest then
    local delay = ((at or fits) - now) * scale
    debt = (debt > delay and debt or delay) + increment * cost
    local remaining = math.max(math.floor((capacity - debt) / increment), 0)
    return fits, gcra_text(now, debt, scale, quota), math.ceil(debt / scale), remaining, debt, old_debt ~= nil
  end
  local lasts = math.ceil(old_debt and old_debt / old_scale or debt / scale)
  local remaining, written = math.max(math.floor((capacity - debt) / increment), 0), nil
  if is_impossible and old_debt then
    -- Of another quota: no quota of a smaller burst forgives what it may have left.
    written = gcra_text(now, old_debt, old_scale, string.match(text, ' .*'))
  elseif is_impossible then
    written = gcra_text(now, debt, scale, quota)
  end
  return fits, written, lasts, remaining, nil, old_debt ~= nil
end
