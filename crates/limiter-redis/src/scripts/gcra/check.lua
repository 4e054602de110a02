-- Checks, reserves or peeks.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota `increment reach`, the increment, the capacity; the cost, 1 if there is none, 0 to
--          peek; for a reservation, within how many microseconds
-- Reply    admitted: the debt with the cost in it, in ticks; for a reservation, that, the delay and `now`
--          else: 0, the wait or -1 for ever, the time until the debt is drained, the permits that remain
-- Costs    TIME, GET and SET; a refusal or a peek has PTTL in place of SET
local text, cost, within = call('GET', KEYS[1]), tonumber(ARGV[4] or 1), ARGV[5]
local latest = cost > 0 and now + (within or 0) or -1
local fits, written, lasts, remaining, debt =
  gcra(text, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), cost, latest)
if written then
  call('SET', KEYS[1], written, 'PX', format('%.0f', ceil(lasts / 1000) + 1))
elseif text and call('PTTL', KEYS[1]) == -1 then
  call('PEXPIRE', KEYS[1], format('%.0f', ceil(lasts / 1000) + 1))
end
if debt then
  return within and { debt, fits - now, now } or debt
end
return { 0, fits < math.huge and fits - now or -1, lasts, remaining }
