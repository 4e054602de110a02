-- Runs scripts one after another at moments that the test sets, and tells of each what it replied and
-- what it left.
--
-- KEYS[1]  the key of all
-- ARGV     of each step: the number of the script, the time in microseconds, the number of its
--          arguments, and these
-- Reply    of each step: the reply or the error, the time to live that was asked for or '', how often
--          something was written and how often read, and what is at the key
local server, clock, life, writes, reads = redis, nil, nil, nil, nil
local reading = { GET = true, LRANGE = true, LINDEX = true, LLEN = true, MGET = true }
local redis = { call = function(command, ...)
  if command == 'TIME' then
    return { string.sub(clock, 1, -7), string.sub(clock, -6) }
  end
  if reading[command] then
    reads = reads + 1
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
-- Returns a list whose head has its ends in it as it is without, see list.lua.
local function plain(list)
  local head = list[1]
  if not head or #head < 57 or string.byte(head) ~= 42 then
    return list
  end
  local total, expiry, border, at, count, oldest_at, oldest_count = struct.unpack('>ddddddd', head, 2)
  local function text(at, count)
    return string.format(count <= 9999 and '%d%04d' or '%d:%d', at, count)
  end
  local all = { '', text(at, count) }
  for own in string.gmatch(string.sub(head, 58, 57 + border), '[^,]+') do
    all[#all + 1] = string.gsub(own, '^0*', '')
  end
  for i = 2, #list do
    all[#all + 1] = string.gsub(list[i], '^0*', '')
  end
  local behind = #all + 1
  for own in string.gmatch(string.sub(head, 58 + border), '[^,]+') do
    table.insert(all, behind, (string.gsub(own, '^0*', '')))
  end
  all[#all + 1] = text(oldest_at, oldest_count)
  all[1] = string.format('%d:%d:%d:%d', total, #all - 1, oldest_at, expiry)
  return all
end
local scripts = {
--SCRIPTS
}

local key, told, i = KEYS[1], {}, 1
while ARGV[i] do
  local name, count, arguments = ARGV[i] + 0, ARGV[i + 2] + 0, {}
  clock, life, writes, reads = ARGV[i + 1], '', 0, 0
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
    value = plain(server.call('LRANGE', key, 0, -1))
  end
  told[#told + 1] = { reply, life, writes, reads, value }
end
return told
