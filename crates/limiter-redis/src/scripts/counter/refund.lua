
-- Gives permits of a charge back. Returns how many, the state after it, and for how long that matters; nothing
-- if the state is impossible.
local function counter_refund(text, quota, window, _, permits, taken_at, mark)
  local ends, old_window, current, previous, reach = counter_parse(text, now)
  if not ends or ends > now + reach then
    return
  end
  mark = taken_at + mark
  if old_window == window and mark == ends then
    permits = math.min(permits, current)
    current = current - permits
  elseif old_window == window and mark + window == ends then
    permits = math.min(permits, previous)
    previous = previous - permits
  else
    permits = 0
  end
  if ends == 0 or current + previous == 0 and ends - old_window <= now then
    return permits, '-', 0
  end
  return permits, format('%.0f %.0f %.0f %.0f %.0f', ends, old_window, reach, current, previous), ends + old_window - now
end

refunds.counter = counter_refund
