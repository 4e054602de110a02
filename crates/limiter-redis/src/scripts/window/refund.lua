
-- Gives permits of a charge back, and returns the same as `refunds.gcra`.
function refunds.fixed(text, now, _, length, _, permits, cost, taken_at, _, mark, kind)
  local ends, count, old_length, reach, previous = window_parse(text, now, kind)
  if not ends or ends > now + reach then
    return
  end
  local given = 0
  if old_length == length and taken_at + mark == ends then
    given = math.min(permits, count)
    count = count - given
  elseif old_length == length and taken_at + mark + length == ends then
    given = math.min(permits, previous)
    previous = previous - given
  end
  -- A window that has not begun replaced the present one, which was full.
  local is_counter, over = kind == 'counter', count + previous > 0 and ends or ends - old_length
  over = is_counter and count > 0 and ends + old_length or over
  text = string.format(is_counter and '%d %d %d %d %d' or '%d %d %d %d', ends, old_length, reach, count, previous)
  return given, over > now and text or '-', math.max(over - now, 0), given == cost
end

refunds.aligned, refunds.counter = refunds.fixed, refunds.fixed
