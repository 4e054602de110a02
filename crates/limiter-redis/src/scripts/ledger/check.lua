-- Checks, reserves or peeks.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota as of `ledger_limit`; the cost, 0 to peek, 1 by default; for a reservation, within how
--          many microseconds
-- Reply    admitted: the time until nothing counts and the permits that remain; for a reservation, also its
--          delay, `now`, and how far from it the time of the entry is
--          else: 0, the wait or -1 for ever, the time until nothing counts, the permits that remain
-- Costs    TIME, LRANGE, LSET and PEXPIRE; RPUSH in a new slot; LTRIM if entries are over, and LRANGE if many are;
--          a refusal or a peek has PTTL in place of writes
local elements, cost, within = redis.call('LRANGE', KEYS[1], 0, 2), (ARGV[5] or 1) + 0, ARGV[6]
local limit, found = ledger_limit(ARGV[1], ARGV[2], ARGV[3], ARGV[4]), nil
if elements[1] then
  found = ledger_parse(elements[1], limit)
end
local fits, state, lasts, remaining, mark, older, is_impossible =
  ledger(found, elements, KEYS[1], now, limit, cost, cost > 0 and now + (within or 0) or -1)
local is_written = mark or is_impossible
if is_written then
  if elements[1] and state.dropped ~= 0 then
    redis.call('LTRIM', KEYS[1], state.dropped, -1)
  end
  if elements[1] then
    redis.call('LSET', KEYS[1], 0, ledger_text(state))
  else
    redis.call('LPUSH', KEYS[1], ledger_text(state))
  end
  if older then
    redis.call('RPUSH', KEYS[1], older)
  end
end
if is_written or elements[1] and redis.call('PTTL', KEYS[1]) == -1 then
  local over = state and state.newest - state.newest % state.slot + state.span or now
  redis.call('PEXPIRE', KEYS[1], math.ceil((over - now) / 1000) + 1)
end
if not mark then
  return { 0, fits < math.huge and fits - now or -1, lasts, remaining }
end
return within and { lasts, remaining, fits - now, now, mark } or { lasts, remaining }
