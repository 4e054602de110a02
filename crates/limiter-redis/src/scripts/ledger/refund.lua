-- Gives permits back.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota as of `ledger_limit`; the permits, of how many, when they were charged, for when, the mark
-- Reply    how many permits came back: before the moment that they were charged for, all of them or none
-- Costs    TIME, LRANGE, LLEN; LINDEX for the steps of a search; LTRIM and LSET, and LSET or RPOP, if permits came back
local permits, cost, is_early = ARGV[5] + 0, ARGV[6] + 0, now < ARGV[8] + 0
-- Charged later than now: the clock has stepped back.
if now < ARGV[7] + 0 or is_early and permits < cost then
  return 0
end
local elements = redis.call('LRANGE', KEYS[1], 0, 2)
local limit = ledger_limit(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
local found = elements[1] and ledger_parse(elements[1], limit)
local _, state, _, _, _, _, is_impossible = ledger(found or nil, elements, KEYS[1], now, limit, 0, -1)
if not found or not state or is_impossible then
  return 0
end
local older = redis.call('LLEN', KEYS[1]) - 1 - state.dropped
permits = ledger_give(state, elements, KEYS[1], older, limit, permits, is_early and cost or 1, ARGV[7] + ARGV[9])
if permits > 0 and state.total == 0 then
  redis.call('DEL', KEYS[1])
elseif permits > 0 then
  redis.call('LTRIM', KEYS[1], state.dropped, -1)
  redis.call('LSET', KEYS[1], 0, ledger_text(state))
end
return permits
