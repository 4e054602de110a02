-- Script  enter: takes a permit of a request in flight, or only asks how many are held.
--
-- State   a sorted set: the ids of the permits, each by its deadline in microseconds of Unix time. A permit whose deadline
--         is over counts until its place is needed. No key: no permits.
-- KEYS    the key
-- ARGV    the limit; how long a permit lasts without renewal, in microseconds; the permit's id, which is new, or '' to take
--         none
-- Reply   { 1, held }  admitted; how many permits are held, this one included, unless none is taken
--         { 0, held }  refused. Nothing is written, but permits whose deadlines are over are removed.
-- Costs   TIME, ZCARD; at the limit ZREMRANGEBYSCORE and ZCARD; if admitted PTTL, ZADD and PEXPIRE; if refused ZCOUNT
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local key, limit, expiry, id = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
local held = redis.call('ZCARD', key)
if held >= limit then
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
  held = redis.call('ZCARD', key)
end
if held >= limit then
  -- A member that no permit can be would refuse for ever.
  if redis.call('ZCOUNT', key, string.format('(%d', now + 86400000000), '+inf') > 0 then
    return { err = 'ERR a member of the set is not a permit, because its deadline is more than a day ahead: delete the key' }
  end
  return { 0, held }
end
if id == '' then
  return { 1, held }
end
-- A second longer than the permit, and never shorter than another process set it.
local lasts = math.ceil(expiry / 1000) + 1000
local expires_later = redis.call('PTTL', key) >= lasts
redis.call('ZADD', key, string.format('%d', now + expiry), id)
local expires = not expires_later and redis.pcall('PEXPIRE', key, lasts)
-- No key stays without an expiry.
if type(expires) == 'table' then
  redis.call('ZREM', key, id)
  return { err = 'ERR PEXPIRE: ' .. expires.err }
end
return { 1, held + 1 }
