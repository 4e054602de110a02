-- Script  reset: makes a subject fresh.
--
-- KEYS    the key
-- Reply   1 if the key existed, else 0
-- Costs   DEL
return redis.call('DEL', KEYS[1])
