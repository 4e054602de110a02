-- Makes a subject a fresh one.
--
-- KEYS[1]  the key of one subject
-- Reply    1 if there was a state, else 0
-- Costs    DEL
return redis.call('DEL', KEYS[1])
