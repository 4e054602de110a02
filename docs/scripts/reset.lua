-- Script  reset: makes a subject a fresh one.
--
-- KEYS    the key
-- Reply   1 if there was a state, else 0
-- Costs   DEL
return redis.call('DEL', KEYS[1])
