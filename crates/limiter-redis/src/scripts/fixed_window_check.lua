-- The short way of a check by the fixed window. Anything but a state of the present window goes the
-- long way, which follows.
--
-- ARGV     the quota, as in fixed_window.lua; then the cost, or nothing for one permit
-- Reply    the time until the end * (limit + 1) + the count, which is one number; where it would be too
--          large, the numbers, as of the long way
local limit, window = ARGV[1] + 0, ARGV[2] + 0
local cost, within = (ARGV[4] or 1) + 0, -1
do
  local text = call('GET', KEYS[1])
  local ends, count
  if text then
    if #text == 18 then
      ends, count = tonumber(text:sub(1, 15)), tonumber(text:sub(16))
    end
    if not ends or not count then
      ends, count = match(text, '^(%d+):(%d+)$')
    end
  end
  local left = ends and ends - now or 0
  if left > 0 and left <= window and count + 0 >= 0 and count + 0 <= limit then
    local fits = count + cost <= limit
    if fits then
      count = count + cost
      call('SET', KEYS[1], format(count <= 999 and '%d%03d' or '%d:%d', ends, count), 'PX', format('%d', left / 1000 + 2))
    end
    local told = left * (limit + 1) + count
    if told < 2 ^ 53 then
      return fits and told or -told
    end
    return { fits and left or -left, count + 0 }
  end
end

local offset = ARGV[3] + 0
