-- Runs scripts one after another at moments that the test sets, and tells of each what it replied and
-- what it left.
--
-- KEYS[1]  the key of all
-- ARGV     of each step: the number of the script, the time in microseconds, the number of its
--          arguments, and these
-- Reply    of each step: the reply or the error, the time to live that was asked for or '', how often
--          something was written, and what is at the key
local server, clock, life, writes = redis, nil, nil, nil
local reads = { GET = true, LRANGE = true, LINDEX = true, LLEN = true, MGET = true }
local redis = { call = function(command, ...)
  if command == 'TIME' then
    return { string.sub(clock, 1, -7), string.sub(clock, -6) }
  end
  if reads[command] then
    return server.call(command, ...)
  end
  local arguments = {...}
  writes = writes + 1
  local expiry = command == 'SET' and 4 or command == 'PEXPIRE' and 2
  if expiry then
    life = arguments[expiry]
    -- The server's own clock goes on while the test's stands still.
    arguments[expiry] = string.format('%.0f', arguments[expiry] + 3600000)
  end
  return server.call(command, unpack(arguments))
end }
local scripts = {
--SCRIPTS
}

local key, told, i = KEYS[1], {}, 1
while ARGV[i] do
  local name, count, arguments = ARGV[i] + 0, ARGV[i + 2] + 0, {}
  clock, life, writes = ARGV[i + 1], '', 0
  for n = 1, count do
    arguments[n] = ARGV[i + 2 + n]
  end
  i = i + 3 + count
  local fine, reply = pcall(scripts[name], { key }, arguments)
  if not fine then
    reply = type(reply) == 'table' and reply.err or tostring(reply)
  end
  local kind, value = server.call('TYPE', key).ok, ''
  if kind == 'string' then
    value = server.call('GET', key)
  elseif kind == 'list' then
    value = server.call('LRANGE', key, 0, -1)
  end
  told[#told + 1] = { reply, life, writes, value }
end
return told
