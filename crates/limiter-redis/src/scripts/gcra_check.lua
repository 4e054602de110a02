-- The short way of a check by GCRA whose increment has a number, see gcra.lua: the most frequent of all.
-- Anything but a state that this very quota has left goes the long way, which follows.
--
-- ARGV     the quota, as in gcra.lua; then the cost, or nothing for one permit
-- Reply    the debt, as of the long way
do
  local text, at = call('GET', KEYS[1]), now
  if text then
    -- As a number the text is rounded, by 256 at most, and once more by the division, by a quarter. That
    -- never reaches another moment, since the last three digits are from 010 to 477.
    at = (string.sub(text, 17) == digits and tonumber(text) or -1) / 1000
    at = at - at % 1 - 1600000000002000
  end
  -- From 2^52 of Unix time on the rounding is more. No capacity is above 10^14.
  if at >= now and now < 2.8 * 10 ^ 15 then
    local drained = at + cost * increment
    local charged = drained - now
    if charged <= capacity then
      text = format('%d%s', drained + 1600000000002000, digits)
      call('SET', KEYS[1], text, 'PXAT', string.sub(text, 1, 13))
      return charged
    end
    if at - now <= capacity then
      return now - at
    end
  end
end
