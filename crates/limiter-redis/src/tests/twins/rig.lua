-- Runs scripts one after another at moments that the test sets, and tells of each what it replied and
-- what it left.
--
-- KEYS[1]  the key of all
-- ARGV     of each step: the number of the script, the time in microseconds, the number of its
--          arguments, and these
-- Reply    of each step: the reply or the error, the time to live that was asked for or '', how often
--          something was written and how often read, what is at the key, and its time to live
local server, clock, life, writes, reads = redis, nil, nil, nil, nil
-- What is read in parts is a tape.
local is_tape = false
local reading = { GET = true, GETRANGE = true, STRLEN = true, EXISTS = true }
local redis = { call = function(command, ...)
  if command == 'TIME' then
    return { string.sub(clock, 1, -7), string.sub(clock, -6) }
  end
  is_tape = is_tape or command == 'GETRANGE'
  if reading[command] then
    reads = reads + 1
    return server.call(command, ...)
  end
  local arguments = {...}
  writes = writes + 1
  local expiry = command == 'SET' and arguments[3] == 'PX' and 4 or command == 'PEXPIRE' and 2
  if command == 'SET' and arguments[3] == 'PXAT' then
    -- The value begins with the moment, and tells it in microseconds.
    assert(arguments[4] == string.sub(arguments[2], 1, 13))
    expiry, arguments[3] = 4, 'PX'
    arguments[4] = string.format('%d', (string.sub(arguments[2], 1, 16) - clock) / 1000)
  end
  if expiry then
    life = arguments[expiry]
    -- The server's own clock goes on while the test's stands still.
    arguments[expiry] = string.format('%.0f', arguments[expiry] + 3600000)
  end
  return server.call(command, unpack(arguments))
end }
-- Returns what a tape tells, see tape.lua: `total:size:tail:expires`, the sum, how many entries there are,
-- when the oldest was taken and when the key is to expire, with the notes behind that; and the entries,
-- the newest first.
local function plain(value)
  local kind, expires, total, at, count, olds, youngs, first, stop = struct.unpack('<BdddI5BBI3I3', value)
  local width, entry = kind % 2 == 1 and 9 or 11, kind % 2 == 1 and '<I6I3' or '<I6I5'
  local all, tail = { '' }, 0
  local function add(own, count)
    tail = at - (at - own) % 2 ^ 48
    all[#all + 1] = string.format(count <= 9999 and '%d%04d' or '%d:%d', tail, count)
  end
  local function add_all(position, number)
    for n = number - 1, 0, -1 do
      add(struct.unpack(entry, value, position + n * width))
    end
  end
  local oldest = 156 + first * width
  if #value < math.max(155, 155 + stop * width)
    or string.sub(value, 39, 38 + olds * width) ~= string.sub(value, oldest, oldest - 1 + olds * width) then
    return { 'torn' }
  end
  if count > 0 then
    add(at, count)
    add_all(39 + olds * width, youngs)
    add_all(oldest, stop - first)
  end
  all[1] = string.format('%d:%d:%d:%d', total, #all - 1, tail, expires)
  if kind > 2 then
    all[1] = string.format('%s|%d|%d|%d|%d', all[1], struct.unpack('<dddd', value, 39))
  end
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
    if is_tape and #value >= 155 and string.find(value, '^[\1-\4]') then
      value = plain(value)
    end
  end
  told[#told + 1] = { reply, life, writes, reads, value, server.call('PTTL', key) }
end
return told
