-- The short way of a check by the fixed window. Anything but a state of the present window goes the
-- long way, which follows.
--
-- ARGV     the quota, as in fixed_window.lua; then the cost, or nothing for one permit
-- Reply    the time until the end * (limit + 1) + the count, which is one number; where it would be too
--          large, the numbers, as of the long way
do
  local text = call('GET', KEYS[1])
  local ends, count = 0, -1
  if text and #text == 18 then
    ends, count = tonumber(string.sub(text, 1, 15)) or 0, tonumber(string.sub(text, 16)) or -1
  elseif text and #text == 16 then
    ends, count = from_bytes('<dd', text)
  end
  local left = ends - now
  if left > 0 and left <= window and count >= 0 and count <= limit and ends % 1 == 0 and count % 1 == 0 then
    local fits = count + cost <= limit
    if fits then
      count = count + cost
      local in_digits = count <= 999 and ends >= 10 ^ 14 and ends < 10 ^ 15
      text = in_digits and format('%d%03d', ends, count) or to_bytes('<dd', ends, count)
      call('SET', KEYS[1], text, 'PX', format('%d', left / 1000 + 2))
    end
    local told = left * (limit + 1) + count
    if told < 2 ^ 53 then
      return fits and told or -told
    end
    return { fits and left or -left, count }
  end
end
