-- Script  reset: makes a subject fresh.
--
-- KEYS    the hash and the lists of the subject
-- Reply   how many existed
-- Costs   UNLINK
return redis.call('UNLINK', unpack(KEYS))
