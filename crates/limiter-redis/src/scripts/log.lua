-- Script  log: checks keys by exact logs or sub-windows. Each key is decided on its own.
--
-- State   a list. Element 0 has the newest entry, `at count total largest slot span horizon`; the elements behind it are
--         the older entries, `at count`, the oldest first. Permits of one slot share an entry: at is when the last of them
--         was taken, and count how many they are. They count for a span from the start of the slot. Total is the sum of
--         all counts, largest the largest limit that has charged, and horizon how far ahead permits may be promised.
--         In microseconds, at in Unix time. No key: no permits taken.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: the quota as element 0 ends with it, ` slot span horizon`; the permits. Then for each key the
--         cost, unless all are 1.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left }        admitted; the time until the key is fresh, and the permits left
--         { 0, reset, left, wait }  refused; the wait is -1 if the cost never fits
--         text                      the error of a command, such as that of a full memory; nothing is charged, unless
--                                   PEXPIRE is denied in a list that is there
--         false                     the script policy has to decide, because the state is not one of this quota alone, has
--                                   more than 64 entries that have ended, or the cost waits for several entries. Nothing is
--                                   charged.
-- Costs   TIME; for each key LRANGE, and twice if three entries have ended; if admitted LSET, RPUSH in a new slot, LTRIM if
--         entries have ended, and PEXPIRE
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local replies = {}
for i, key in ipairs(KEYS) do
  local quota, permits, cost = ARGV[2 * i - 1], ARGV[2 * i] + 0, (ARGV[2 * #KEYS + i] or 1) + 0
  local slot, span = string.match(quota, '(%d+) (%d+)')
  local list, reply = redis.pcall('LRANGE', key, 0, 3), false
  local newest, at, count, total, largest, writer =
    string.match(list[1] or '', '^((%d+) (%d+)) (%d+) (%d+)( %d+ %d+ %d+)$')
  if writer == quota and #at == 16 and at + 0 <= now then
    -- Finds the oldest entry that counts, or else the newest, and the sum of the permits from it on.
    local n, counted, first, ends = 1, total + 0, nil, nil
    repeat
      if n == 4 then
        for _, entry in ipairs(redis.call('LRANGE', key, 4, 65)) do
          list[#list + 1] = entry
        end
      end
      counted, n = counted - (first or 0), n + 1
      ends, first = string.match(list[n] or newest, '^(%d+) (%d+)$')
      ends = ends and #ends == 16 and ends - ends % slot + span or math.huge
    until ends > now or not list[n] or n > 66
    if first and ends > now and n <= 66 and counted >= count + 0 and ends <= at - at % slot + span then
      local in_slot, wait = at + 0 >= now - now % slot, counted + cost > permits and ends - now or 0
      if wait == 0 then
        local reset = span - now % slot
        local head = string.format('%d %d %d %d', now, in_slot and count + cost or cost, counted + cost,
          math.max(largest, permits))
        -- The last entry that has ended becomes element 0. A full memory refuses a script's first write alone.
        local set = redis.pcall('LSET', key, math.max(n - 2, 0), head .. quota)
        reply = set.err and 'LSET: ' .. set.err or { 1, reset, permits - counted - cost }
        if not set.err then
          if not in_slot then
            redis.call('RPUSH', key, newest)
          end
          if n > 2 then
            redis.call('LTRIM', key, n - 2, -1)
          end
          redis.call('PEXPIRE', key, math.ceil(reset / 1000) + 1)
        end
      elseif cost > permits or counted - first + cost <= permits then
        reply = { 0, at - at % slot + span - now, math.max(permits - counted, 0), cost > permits and -1 or wait }
      end
    end
  elseif #list == 0 and not list.err and cost <= permits then
    local reset = span - now % slot
    local pushed = redis.pcall('RPUSH', key, string.format('%d %d %d %d', now, cost, cost, permits) .. quota)
    reply = type(pushed) == 'table' and 'RPUSH: ' .. pushed.err or { 1, reset, permits - cost }
    local expires = type(pushed) == 'number' and redis.pcall('PEXPIRE', key, math.ceil(reset / 1000) + 1)
    if type(expires) == 'table' then
      redis.call('LTRIM', key, 1, 0)
      reply = 'PEXPIRE: ' .. expires.err
    end
  elseif #list == 0 and not list.err then
    reply = { 0, 0, permits, -1 }
  end
  replies[i] = reply
end
if #KEYS == 1 then
  return replies[1]
end
return replies
