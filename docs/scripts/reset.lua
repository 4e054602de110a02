-- Script  reset: makes a subject fresh.
--
-- KEYS    the keys of the subject's limits, and those of the latest ends of their leases
-- Reply   how many existed
-- Costs   DEL
return redis.call('DEL', unpack(KEYS))
