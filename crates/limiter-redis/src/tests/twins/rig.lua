-- Runs scripts one after another at times that the test sets, and reports what each replied and left. Keys expire by the
-- test's clock.
--
-- KEYS     all keys
-- ARGV     of each step: the number of the script, 0 for a plain command; the time in microseconds; how many keys it has,
--          and their numbers; how many arguments it has, and these. A command has its name first, and its keys among the
--          arguments.
-- Reply    of each step: 'reply' and the reply, or 'error' and its text; how many commands wrote; and for each of its keys
--          what is there, which is a string, an array for a list, an array of one array for a sorted set, or null; and when it expires, in milliseconds of Unix
--          time, or ''
local server, clock, expiries, writes = redis, nil, {}, nil
local writing = { SET = true, DEL = true, LPUSH = true, RPUSH = true, RPOP = true, LSET = true, LTRIM = true, LREM = true,
  PEXPIRE = true, ZADD = true, ZREM = true, ZREMRANGEBYSCORE = true }
local function run(call, command, key, ...)
  if command == 'TIME' then
    return { string.sub(clock, 1, -7), string.sub(clock, -6) }
  end
  if command == 'PTTL' and expiries[key] then
    return expiries[key] - string.sub(clock, 1, -4)
  end
  local arguments = {...}
  local place = command == 'SET' and arguments[2] == 'PX' and 3 or command == 'PEXPIRE' and 1
  local expires = place and string.sub(clock, 1, -4) + arguments[place]
  if place then
    -- The server's own clock goes on while the test's stands still.
    arguments[place] = string.format('%.0f', arguments[place] + 3600000)
  end
  local reply = call(command, key, unpack(arguments))
  local has_failed = type(reply) == 'table' and reply.err
  if writing[command] and not has_failed then
    writes = writes + 1
  end
  if command == 'SET' and not has_failed or command == 'PEXPIRE' and reply == 1 then
    expiries[key] = expires
  elseif server.call('EXISTS', key) == 0 then
    expiries[key] = nil
  end
  return reply
end
local redis = {
  call = function(...) return run(server.call, ...) end,
  pcall = function(...) return run(server.pcall, ...) end,
}
local scripts = {
--SCRIPTS
}
scripts[0] = function(_, words)
  return redis.call(unpack(words))
end

-- Returns what is stored at a key.
local function stored(key)
  local kind = server.call('TYPE', key).ok
  if kind == 'list' then
    return server.call('LRANGE', key, 0, -1)
  end
  if kind == 'zset' then
    return { server.call('ZRANGE', key, 0, -1, 'WITHSCORES') }
  end
  return kind == 'string' and server.call('GET', key)
end

local replies, place = {}, 1

-- Returns the next argument, as a number.
local function number()
  place = place + 1
  return ARGV[place - 1] + 0
end

while ARGV[place] do
  local script, keys, arguments = number(), {}, {}
  clock, place, writes = ARGV[place], place + 1, 0
  for n = 1, number() do
    keys[n] = KEYS[number()]
    if expiries[keys[n]] and string.sub(clock, 1, -4) + 0 >= expiries[keys[n]] then
      server.call('DEL', keys[n])
      expiries[keys[n]] = nil
    end
  end
  for n = 1, number() do
    arguments[n], place = ARGV[place], place + 1
  end
  local is_done, reply = pcall(scripts[script], keys, arguments)
  local error = not is_done and reply or type(reply) == 'table' and reply.err
  if error then
    reply = type(error) == 'table' and error.err or tostring(error)
  end
  local report = { error and 'error' or 'reply', reply, writes }
  for _, key in ipairs(keys) do
    local expires = expiries[key]
    report[#report + 1] = stored(key)
    report[#report + 1] = expires and string.format('%.0f', expires) or ''
  end
  replies[#replies + 1] = report
end
server.call('DEL', unpack(KEYS))
return replies
