-- The short way of a check by GCRA with a remainder. Anything but a state that this very quota has left
-- goes the long way, which follows.
--
-- ARGV     the quota, as in gcra.lua; then the cost, or nothing for one permit
-- Reply    the debt, as of the long way
do
  local text, at, rem = call('GET', KEYS[1]), now, 0
  if text then
    local digits, zeros, ticks
    at, rem, digits, zeros, ticks = match(text, '^(%d+):(%d+):(%d+)e(%d):(%d+)$')
    if digits ~= ARGV[4] or zeros ~= ARGV[5] or ticks ~= ARGV[3] then
      at = nil
    end
  end
  if at then
    local debt = 0
    if at - now >= 0 then
      debt = (at - now) * scale + rem
    end
    local charged = debt + cost * increment
    if charged <= capacity then
      rem = charged % scale
      local drains_in = (charged - rem) / scale
      call('SET', KEYS[1], format('%d:%d:%de%d:%d', now + drains_in, rem, mantissa, exponent, scale), 'PX', format('%d', (drains_in + 1) / 1000 + 2))
      return charged
    end
    if debt <= capacity then
      return -debt
    end
  end
end
