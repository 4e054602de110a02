-- Checks, reserves or peeks by GCRA, a window or a counter.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota in `parts`, which are those of `take`: its text in a state, two numbers, and for windows
--          the kind; the cost, 0 to peek, 1 by default; for a reservation, within how many microseconds
-- Reply    admitted: the time until the limit is fresh and the permits that remain, but by GCRA the debt
--          for a reservation: these two, its delay, `now`, and the mark of the charge
--          else: 0, the wait or -1 for ever, the time until the limit is fresh, the permits that remain
-- Costs    TIME, GET and SET; a refusal or a peek has PTTL in place of SET
local text, cost, within = redis.call('GET', KEYS[1]), (ARGV[parts + 1] or 1) + 0, ARGV[parts + 2]
local latest = cost > 0 and now + (within or 0) or -1
local fits, written, lasts, remaining, mark =
  take(text, now, ARGV[1], ARGV[2] + 0, ARGV[3] + 0, cost, latest, nil, ARGV[4])
if written then
  redis.call('SET', KEYS[1], written, 'PX', math.ceil(lasts / 1000) + 1)
elseif text and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], math.ceil(lasts / 1000) + 1)
end
if not mark then
  return { 0, fits < math.huge and fits - now or -1, lasts, remaining }
elseif within then
  return { lasts, remaining, fits - now, now, mark }
end
return is_gcra and mark or { lasts, remaining }
