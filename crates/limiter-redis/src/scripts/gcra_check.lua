-- The short way of a check by GCRA whose increment is written in digits: the most frequent of all.
-- Anything but a state that this very quota has left goes the long way, which follows.
--
-- ARGV     the quota, as in gcra.lua; then the cost, or nothing for one permit
-- Reply    the debt, as of the long way
do
  local text, at = call('GET', KEYS[1]), now
  if text then
    -- As a number, the text is rounded by 512 at most, which never reaches behind the last four digits:
    -- they are from 1000 to 7999.
    at = (string.sub(text, 16) == digits and tonumber(text) or -1) / 10000
    at = at - at % 1
  end
  -- Moments in digits are from 10^14 to before 9 * 10^14, and no capacity is above 10^14.
  if at >= now and now >= 10 ^ 14 and now < 8 * 10 ^ 14 then
    local drained = at + cost * increment
    local charged = drained - now
    if charged <= capacity then
      call('SET', KEYS[1], format('%d%s', drained, digits), 'PX', format('%d', charged / 1000 + 2))
      return charged
    end
    if at - now <= capacity then
      return now - at
    end
  end
end
