-- Gives permits back.
--
-- KEYS[1]  the key of one subject
-- ARGV     the quota's slot, span, horizon, limit, loose and slots; the permits, of how many, when
--          they were charged, for when, and the mark
-- Reply    how many permits came back
-- Costs    TIME and LRANGE; LRANGE for the steps of a search, and two or three LSET if permits came back
local limit = ledger.open(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
local is_found, is_possible = ledger_load(limit, KEYS[1])
if not is_found or not is_possible then
  return 0
end
local permits, i = ledger.refund(limit, tonumber(ARGV[7]), tonumber(ARGV[9]), tonumber(ARGV[11]))
if permits == 0 then
  return 0
end
if limit.total == 0 then
  call('DEL', KEYS[1])
  return permits
end
local entries, oldest = limit.last - limit.first + 1, (entry(limit, limit.first))
local place = 2 * (limit.last - i) + 1
if limit.count[i] > 0 then
  call('LSET', KEYS[1], format('%.0f', place + 1), format('%.0f', limit.count[i]))
else
  call('LSET', KEYS[1], format('%.0f', place), '-')
  call('LSET', KEYS[1], format('%.0f', place + 1), '-')
  call('LREM', KEYS[1], '2', '-')
  entries, oldest = entries - 1, i == limit.first and entry(limit, i + 1) or oldest
end
if limit.first > 1 then
  call('LTRIM', KEYS[1], '0', format('%.0f', 2 * entries))
end
call('LSET', KEYS[1], '0', ledger_head(limit, oldest))
return permits
