-- The short way of a check by GCRA with a remainder. Anything but a state that this very quota has left
-- goes the long way, which follows.
--
-- ARGV     the quota, as in gcra.lua; then the cost, or nothing for one permit
-- Reply    the debt, as of the long way
do
  local text = call('GET', KEYS[1])
  local at, own, rem, ticks = -now, increment, 0, scale
  if text then
    own = 0
    if #text == 28 then
      at, own, rem, ticks = from_bytes('<ddI6I6', text)
    end
  end
  local debt = (-at - now) * scale + rem
  if at <= -now and own == increment and ticks == scale and at % 1 == 0 then
    local charged = debt + cost * increment
    if charged <= capacity then
      rem = charged % scale
      local drains_in = (charged - rem) / scale
      local left = to_bytes('<ddI6I6', -now - drains_in, increment, rem, scale)
      call('SET', KEYS[1], left, 'PX', format('%d', (drains_in + 1) / 1000 + 2))
      return charged
    end
    if debt <= capacity then
      return -debt
    end
  end
end
