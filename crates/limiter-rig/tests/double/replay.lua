-- Runs a script on a real server at a time that the test sets. Keys expire by that time as well.
--
-- KEYS     those of the script, and a hash of the times at which keys expire, in milliseconds of Unix time
-- ARGV     those of the script, and the time in microseconds
-- Reply    'reply' and the reply, or 'error' and its text; and for each of the script's keys its type, what is stored, and
--          when it expires, or ''
local server, expiries, clock = redis, table.remove(KEYS), table.remove(ARGV)
local millis = string.sub(clock, 1, -4) + 0

-- Returns when a key expires.
local function expiry(key)
  local at = server.call('HGET', expiries, key)
  return at and at + 0
end

local function set_expiry(key, at)
  if at then
    server.call('HSET', expiries, key, string.format('%.0f', at))
  else
    server.call('HDEL', expiries, key)
  end
end

local function run(call, command, key, ...)
  if command == 'TIME' then
    return { string.sub(clock, 1, -7), tostring(string.sub(clock, -6) + 0) }
  end
  local reply, arguments = nil, {...}
  local at = command == 'PEXPIRE' and millis + arguments[1]
  if at then
    -- The server's own clock moves on while the test's does not.
    arguments[1] = string.format('%.0f', arguments[1] + 86400000)
  end
  reply = call(command, key, unpack(arguments))
  if command == 'PTTL' and reply >= 0 then
    return expiry(key) - millis
  end
  if command == 'PEXPIRE' and reply == 1 then
    set_expiry(key, at)
  else
    -- The keys of `UNLINK`, or one key and no other.
    for _, each in ipairs({ key, ... }) do
      if server.call('EXISTS', each) == 0 then
        set_expiry(each)
      end
    end
  end
  return reply
end

local redis = {
  call = function(...) return run(server.call, ...) end,
  pcall = function(...) return run(server.pcall, ...) end,
}

local function script(KEYS, ARGV)
--SCRIPT
end

local reads = {
  none = function() return '' end,
  string = function(key) return server.call('GET', key) end,
  hash = function(key) return server.call('HGETALL', key) end,
  list = function(key) return server.call('LRANGE', key, 0, -1) end,
  zset = function(key) return server.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}

for _, key in ipairs(KEYS) do
  local at = expiry(key)
  if at and millis > at then
    server.call('DEL', key)
    set_expiry(key)
  end
end
local keys = { unpack(KEYS) }
local is_done, reply = pcall(script, keys, ARGV)
local error = not is_done and reply or type(reply) == 'table' and reply.err
local report = { error and 'error' or 'reply', error or reply or false }
for _, key in ipairs(KEYS) do
  local kind, at = server.call('TYPE', key).ok, expiry(key)
  report[#report + 1] = kind
  report[#report + 1] = reads[kind](key)
  report[#report + 1] = at and string.format('%.0f', at) or ''
end
return report
