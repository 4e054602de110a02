-- The short way of a check by GCRA whose tick is a microsecond, and whose increment is not written in
-- digits. Anything but a state that this very quota has left goes the long way, which follows.
--
-- ARGV     the quota, as in gcra.lua; then the cost, or nothing for one permit
-- Reply    the debt, as of the long way
do
  local text = call('GET', KEYS[1])
  local at, own = now, increment
  if text then
    at = -1
    if #text == 16 then
      at, own = from_bytes('<dd', text)
    end
  end
  if at >= now and own == increment and at % 1 == 0 then
    local drained = at + cost * increment
    local charged = drained - now
    if charged <= capacity then
      call('SET', KEYS[1], to_bytes('<dd', drained, increment), 'PX', format('%d', charged / 1000 + 2))
      return charged
    end
    if at - now <= capacity then
      return now - at
    end
  end
end
