-- The short way of a check by the fixed window. Anything but a state of the present window goes the
-- long way, which follows.
--
-- ARGV     the quota, as in fixed_window.lua; then the cost, or nothing for one permit
-- Reply    the numbers, as of the long way
do
  local text = call('GET', KEYS[1])
  if text and #text == 16 then
    local ends, count = from_bytes('<dd', text)
    local left = ends - now
    if left > 0 and left <= window and count >= 0 and count <= limit and ends % 1 == 0 and count % 1 == 0 then
      local charged = count + cost
      if charged > limit then
        return { -left, count }
      end
      call('SET', KEYS[1], to_bytes('<dd', ends, charged), 'PX', format('%d', left / 1000 + 2))
      return { left, charged }
    end
  end
end
