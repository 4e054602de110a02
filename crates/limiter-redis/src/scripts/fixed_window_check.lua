-- The short way of a check by the fixed window. Anything but a state of the present window goes the
-- long way, which follows.
--
-- ARGV     the quota, as in fixed_window.lua; then the cost, or nothing for one permit
-- Reply    the numbers, as of the long way
do
  local text = call('GET', KEYS[1])
  local ends, count
  if text then
    ends, count = match(text, '^(%d+)(%d%d%d)$')
    if not ends then
      ends, count = match(text, '^(%d+):(%d+)$')
    end
  end
  local left = ends and ends - now or 0
  if left > 0 and left <= window and count + 0 <= limit then
    local charged = count + cost
    if charged > limit then
      return { -left, count + 0 }
    end
    text = format(charged <= 999 and '%d%03d' or '%d:%d', ends, charged)
    call('SET', KEYS[1], text, 'PX', format('%d', left / 1000 + 2))
    return { left, charged }
  end
end
