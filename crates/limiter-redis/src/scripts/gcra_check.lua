-- The short way of a check by GCRA whose tick is a microsecond: the most frequent of all. Anything but
-- a state that this very quota has left goes the long way, which follows.
--
-- Quota    as in gcra.lua, and `state` and `form`: how such a state is read and written
-- ARGV     the cost, or nothing for one permit
-- Reply    the debt, as of the long way
do
  local text, at = call('GET', KEYS[1]), now
  if text then
    at = match(text, state)
  end
  if at then
    local debt = at - now
    if debt < 0 then
      debt = 0
    end
    local charged = debt + cost * increment
    if charged <= capacity then
      call('SET', KEYS[1], format(form, now + charged), 'PX', format('%d', charged / 1000 + 2))
      return charged
    end
    if debt <= capacity then
      return -debt
    end
  end
end
