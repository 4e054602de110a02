-- Checks, reserves or peeks.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota ` increment reach`, the increment, the capacity; the cost, 1 if there is none, 0 to
--          peek; for a reservation, within how many microseconds
-- Reply    admitted: the debt with the cost in it, in ticks; for a reservation, that, the delay and `now`
--          else: 0, the wait or -1 for ever, the time until the debt is drained, the permits that remain
-- Costs    TIME, GET and SET; a refusal or a peek has PTTL in place of SET
local text, cost, within = redis.call('GET', KEYS[1]), (ARGV[4] or 1) + 0, ARGV[5]
local latest = cost > 0 and now + (within or 0) or -1
local fits, written, lasts, remaining, debt =
  gcra(text, now, ARGV[1], ARGV[2] + 0, ARGV[3] + 0, cost, latest)
if written then
  redis.call('SET', KEYS[1], written, 'PX', math.ceil(lasts / 1000) + 1)
elseif text and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], math.ceil(lasts / 1000) + 1)
end
if debt then
  return within and { debt, fits - now, now } or debt
end
return { 0, fits < math.huge and fits - now or -1, lasts, remaining }
