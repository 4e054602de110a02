-- Script  window: checks keys by fixed or aligned windows. Each key is decided on its own.
--
-- State   `since length reach count`, in microseconds: the Unix time since which the window counts, its length, how far
--         ahead of now the quota can set the end, and the permits taken in the window. No key: no permits taken.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key: the quota as the state has it, ` length reach `; the permits; the length; and 1 if a window
--         begins with its first permit, or the length if it ends at a multiple of it. Then for each key the cost, unless
--         all are 1.
-- Reply   an array of the replies for the keys, or for one key its reply:
--         { 1, reset, left }        admitted; the time until the key is fresh, and the permits left
--         { 0, reset, left, wait }  refused; the wait is -1 if the cost never fits
--         text                      the error of SET, such as that of a full memory; nothing is charged
--         false                     the script policy has to decide, because the state is not one window of this quota
--                                   that has begun. Nothing is charged.
-- Costs   TIME; for each key GET, and SET if admitted
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
local replies = {}
for i, key in ipairs(KEYS) do
  local quota, permits, length, grid = ARGV[4 * i - 3], ARGV[4 * i - 2] + 0, ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0
  local cost = (ARGV[4 * #KEYS + i] or 1) + 0
  local text, since, count, reply = redis.pcall('GET', key), now, 0, false
  if text then
    local found, middle, taken = string.match(type(text) == 'string' and text or '', '^(%d+)( %d+ %d+ )(%d+)$')
    local is_own = middle == quota and #found == 16 and taken + 0 <= 158112000000000
    since, count = is_own and found + 0 or math.huge, is_own and taken + 0 or 0
    if since - since % grid + length <= now or count == 0 and since <= now then
      since, count = now, 0
    end
  end
  local reset = since - since % grid + length - now
  if since <= now and count + cost <= permits then
    local written = string.format('%d%s%d', since, quota, count + cost)
    local set = redis.pcall('SET', key, written, 'PX', math.ceil(reset / 1000) + 1)
    reply = set.err and 'SET: ' .. set.err or { 1, reset, permits - count - cost }
  elseif since <= now then
    reply = { 0, count > 0 and reset or 0, math.max(permits - count, 0), cost > permits and -1 or reset }
  end
  replies[i] = reply
end
if #KEYS == 1 then
  return replies[1]
end
return replies
