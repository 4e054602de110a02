-- Checks, reserves or peeks.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota's slot, span, horizon, limit, loose and slots; the cost, 1 if there is none, 0 to peek;
--          for a reservation, within how many microseconds
-- Reply    admitted: the time until nothing counts and the permits that remain; for a reservation, also its
--          delay, `now`, and how far from it the time of the entry is
--          else: 0, the wait or -1 for ever, the time until nothing counts, the permits that remain
-- Costs    TIME, LRANGE, LSET, LPUSH and PEXPIRE; LTRIM and one more LRANGE if entries are over; a refusal or
--          a peek has PTTL in place of writes
local limit = ledger.open(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
local cost, within = tonumber(ARGV[7] or 1), tonumber(ARGV[8] or 0)
local is_found, is_possible = ledger_load(limit, KEYS[1])
local at, mark = ledger.fits(limit, cost, now), nil
local is_admitted = cost > 0 and at <= now + within
if is_admitted then
  mark = ledger.charge(limit, cost, at)
end
if is_admitted or not is_possible then
  ledger_store(limit)
elseif is_found and call('PTTL', KEYS[1]) == -1 then
  call('PEXPIRE', KEYS[1], ledger_expiry(limit))
end
local reset, remaining = ledger.usage(limit)
if not is_admitted then
  return { 0, at < math.huge and at - now or -1, reset, remaining }
end
if ARGV[8] then
  return { reset, remaining, at - now, now, mark }
end
return { reset, remaining }
