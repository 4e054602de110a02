-- The short way of a check by several limits, which has a part of each limit in it: what all of them have
-- left by these very quotas is decided here. All else goes the long way, which follows.
do
  local text = call('GET', KEYS[1])
  -- Whether each state was left by its limit's quota.
  local is_own, max = not text or #text == SIZE, math.max
  -- How long the cost has to wait, and how long what it leaves counts.
  local longest, lasts = 0, 0
  local STATES
  if text and is_own then
    STATES = from_bytes('<FORM', text)
  end
  if is_own then
--LIMITS
    if is_own and longest == 0 then
      call('SET', KEYS[1], to_bytes('<FORM', WRITTEN), 'PX', format('%d', lasts / 1000 + 2))
      return { CHARGED }
    end
    if is_own then
      return { FOUND, longest < math.huge and longest or -1 }
    end
  end
end
