-- Runs scripts one after another at moments that the test sets, and reports what each replied and left.
--
-- KEYS[1]  the key of all
-- ARGV     of each step: the number of the script, the time in microseconds, the number of its
--          arguments, and these
-- Reply    of each step: the reply or the error, the expiry that was set or '', how many commands wrote, what
--          is at the key, and its time to live
local server, clock, life, writes = redis, nil, nil, nil
local writing = { SET = true, DEL = true, LPUSH = true, RPUSH = true, RPOP = true, LSET = true, LTRIM = true,
  PEXPIRE = true }
local function run(call, command, ...)
  if command == 'TIME' then
    return { string.sub(clock, 1, -7), string.sub(clock, -6) }
  end
  local arguments = {...}
  if writing[command] then
    writes = writes + 1
  end
  local expiry = command == 'SET' and arguments[3] == 'PX' and 4 or command == 'PEXPIRE' and 2
  if expiry then
    life = arguments[expiry]
    -- The server's own clock goes on while the test's stands still.
    arguments[expiry] = string.format('%.0f', arguments[expiry] + 3600000)
  end
  return call(command, unpack(arguments))
end
local redis = {
  call = function(...) return run(server.call, ...) end,
  pcall = function(...) return run(server.pcall, ...) end,
}
local scripts = {
--SCRIPTS
}

local key, replies, i = KEYS[1], {}, 1
while ARGV[i] do
  local name, count, arguments = ARGV[i] + 0, ARGV[i + 2] + 0, {}
  clock, life, writes = ARGV[i + 1], '', 0
  for n = 1, count do
    arguments[n] = ARGV[i + 2 + n]
  end
  i = i + 3 + count
  local is_done, reply = pcall(scripts[name], { key }, arguments)
  if not is_done then
    reply = type(reply) == 'table' and reply.err or tostring(reply)
  end
  local kind, value = server.call('TYPE', key).ok, ''
  if kind == 'string' then
    value = server.call('GET', key)
  elseif kind == 'list' then
    value = table.concat(server.call('LRANGE', key, 0, -1), ',')
  end
  replies[#replies + 1] = { reply, life, writes, value, server.call('PTTL', key) }
end
return replies
