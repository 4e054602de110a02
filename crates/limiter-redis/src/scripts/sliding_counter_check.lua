-- The short way of a check by the sliding counter. Anything but a state of the present window, which
-- this very quota has left, goes the long way, which follows.
--
-- ARGV     the quota, as in sliding_counter.lua; then the cost, or nothing for one permit
-- Reply    (the time until the end * (limit + 1) + current) * (limit + 1) + previous, which is one
--          number; where it would be too large, the numbers, as of the long way
do
  local text = call('GET', KEYS[1])
  local ends, current, previous, old_window = 0, 0, 0, 0
  if text and #text == 32 then
    ends, current, previous, old_window = from_bytes('<dddd', text)
  end
  local left = old_window == window and ends - now or 0
  if left > window and left <= 2 * window then
    -- With nothing in it, the window would begin anew.
    if current >= 0 and previous >= 0 and current <= limit and previous <= limit and current + previous > 0
      and left % 1 == 0 and current % 1 == 0 and previous % 1 == 0 then
      local room = limit - cost - current
      local fits = previous <= room
      if not fits and room >= 0 then
        -- Until so much of the window has passed that the rest of them fit: see `fades_to`.
        local rest = window % previous
        local faded_at = window - room * ((window - rest) / previous) - math.floor(room * rest / previous)
        fits = faded_at <= 2 * window - left
      end
      if fits then
        current = current + cost
        call('SET', KEYS[1], to_bytes('<dddd', ends, current, previous, window), 'PX', format('%d', left / 1000 + 2))
      end
      local told = (left * (limit + 1) + current) * (limit + 1) + previous
      if told < 2 ^ 53 then
        return fits and told or -told
      end
      return { fits and left or -left, current, previous }
    end
  end
end
