
-- Gives permits of a charge back. Returns how many, the state after it, and for how long that matters; nothing
-- if the state is impossible.
local function window_refund(text, quota, window, _, permits, taken_at, mark)
  local ends, old_window, count, reach = window_parse(text, now)
  if not ends or ends > now + reach then
    return
  end
  if ends ~= taken_at + mark or old_window ~= window then
    permits = 0
  end
  permits = math.min(permits, count)
  count = count - permits
  -- A window that has not begun replaced the present one, which was full.
  if ends == 0 or permits > 0 and count == 0 and ends - window <= now then
    return permits, '-', 0
  end
  return permits, format('%.0f %.0f %.0f %.0f', ends, old_window, reach, count),
    (count > 0 and ends or ends - old_window) - now
end

refunds.fixed, refunds.aligned = window_refund, window_refund
