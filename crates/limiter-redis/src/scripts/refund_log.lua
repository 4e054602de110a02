-- Script  refund_log: gives permits of one charge back to a key with one log.
--
-- State   that of the script log
-- KEYS    the key
-- ARGV    that of the script refund, for one limit
-- Reply   how many permits came back. Before the moment that the charge was made for, all of them or none. None if the
--         log has more than 1,000 later entries.
-- Costs   TIME, LRANGE and LLEN; LINDEX for each step of a binary search; if permits came back LINDEX and LSET for each
--         later entry, LSET and twice LTRIM, or DEL if none counts any more

-- include clock

-- include log

-- include log_refund

local kind, quota, most, number, permits, cost, taken_at, at, _, mark = unpack(ARGV)
local limit = { kind = kind, quota = quota, most = most + 0, number = number + 0 }
local charge = { permits = permits + 0, cost = cost + 0, taken_at = taken_at + 0, at = at + 0, mark = mark + 0 }
local key, is_early = KEYS[1], now < charge.at
-- Charged later than now: the clock has stepped back.
if now < charge.taken_at or is_early and charge.permits < charge.cost then
  return 0
end
local list = redis.call('LRANGE', key, 0, 2)
local log = log_read(table.remove(list, 1), list, limit, key)
if log.older ~= list then
  return 0
end
local permits, first = log_refund(log, limit, charge, is_early and charge.cost or 1)
if permits > 0 and log.count == 0 then
  redis.call('DEL', key)
elseif permits > 0 then
  -- Changes nothing, and fails before anything is written if the user may not call it.
  redis.call('LTRIM', key, 0, -1)
  for n = first, log.length do
    redis.call('LSET', key, n, log_element(log.older[n]))
  end
  -- The last ended entry becomes element 0.
  redis.call('LSET', key, log.dropped, log_head(log))
  redis.call('LTRIM', key, log.dropped, log.length)
end
return permits
