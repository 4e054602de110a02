
-- Takes a cost from a state at the moment at which it fits, or at a later one, `at`, unless that is later than
-- `latest`.
--
-- Returns  when it fits (math.huge for never); the state that is to be written, if any; for how many microseconds
--          the state matters, which is until it is fresh; the permits that remain; the mark of the charge if
--          there was one, which is the debt after it; and whether nothing can be promised behind the state
local function gcra(text, quota, increment, capacity, cost, latest, at)
  local scale = 1
  if increment % 1 > 0 then
    scale, increment, capacity = 10000, floor(increment * 10000 + 0.5), floor(capacity * 10000 + 0.5)
  end
  local debt, is_impossible = 0, false
  -- Of a debt of another quota, which drains at that quota's pace until this one charges.
  local old_debt, old_increment, old_scale
  if text then
    local is_own = string.sub(text, scale == 1 and 18 or 23) == quota
    debt = is_own and scale == 1 and (tonumber(string.sub(text, 1, 16)) or 0) - now or -1
    if debt < 0 or debt > capacity then
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
    fits, latest = now + ceil((old_debt - room / increment * old_increment) / old_scale), -1
  elseif debt > room then
    fits = now + ceil((debt - room) / scale)
  end
  local is_admitted = fits <= latest
  local lasts = ceil(old_debt and old_debt / old_scale or debt / scale)
  if is_admitted then
    debt = math.max(debt, ((at or fits) - now) * scale) + increment * cost
    lasts = ceil(debt / scale)
  end
  local remaining = math.max(floor((capacity - debt) / increment), 0)
  if not is_admitted and not is_impossible then
    return fits, nil, lasts, remaining, nil, old_debt ~= nil
  end
  if not is_admitted and old_debt then
    -- Of another quota: no quota of a smaller burst forgives what it may have left.
    debt, scale, quota = old_debt, old_scale, string.match(text, ' (.*)')
  end
  text = format('%.0f', now + floor(debt / scale))
  if scale > 1 then
    text = text .. format('.%04.0f', debt % scale)
  end
  return fits, text .. ' ' .. quota, lasts, remaining, is_admitted and debt, old_debt ~= nil
end
