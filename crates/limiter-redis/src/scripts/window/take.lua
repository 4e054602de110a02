
-- Takes a cost from a state at the moment at which it fits, or at a later one, `at`, unless that is later than
-- `latest`. The quota is ` length reach `, as a state has it. Returns the same as `gcra`; the mark of a charge is
-- the time until its window ends.
local function window(text, now, quota, length, limit, cost, latest, at, kind)
  local ends, count, old_length, reach, is_impossible = 0, 0, 0, 0, false
  if text and string.sub(text, 17, 16 + #quota) == quota then
    -- The present window of this quota needs no pattern.
    ends, count, old_length = tonumber(string.sub(text, 1, 16)), tonumber(string.sub(text, 17 + #quota)), length
  end
  if text and not (ends and count and ends > now and ends <= now + length and count > 0 and count <= limit) then
    ends, count, old_length, reach = window_parse(text, now, kind)
    is_impossible = not ends or ends > now + reach
    if is_impossible then
      -- Full, by the length and the count of the quota that wrote it, which may be larger.
      old_length, reach = old_length or length, reach or tonumber(string.match(quota, '(%d+) $'))
      ends, count = now + old_length, math.max(count or 0, limit)
      if kind == 'aligned' then
        -- The present window may be about to end, so the next one is full too.
        ends = now - now % old_length + 2 * old_length
      end
      reach = math.max(reach, ends - now)
    end
  end
  -- A window by the clock may be open already when one of another length ends.
  local is_stuck = kind == 'aligned' and ends > 0 and old_length ~= length
  if is_stuck and latest > now then
    latest = now
  end
  -- In this window, which may be one that was reserved, or after it.
  local begins, fits = ends - old_length, now
  if cost > limit then
    fits = math.huge
  elseif ends > now and count + cost > limit then
    fits = ends
  elseif begins > now then
    fits = begins
  end
  if fits > latest then
    local lasts = math.max((count > 0 and ends or begins) - now, 0)
    -- Nothing is left of the present once a later window is in use.
    local remaining = begins <= now and math.max(limit - count, 0) or 0
    local written = is_impossible and string.format('%d %d %d %d', ends, old_length, reach, count) or nil
    return fits, written, lasts, remaining, nil, is_stuck
  end
  at = at or fits
  if ends <= at then
    count = 0
  end
  -- A charge under another length keeps the count.
  if count == 0 or old_length ~= length then
    ends = at + length - (kind == 'aligned' and at % length or 0)
  end
  count = count + cost
  return fits, string.format('%d%s%d', ends, quota, count), ends - now,
    ends - length <= now and limit - count or 0, ends - now, is_stuck
end
