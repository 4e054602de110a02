-- Script  leave: gives back permits of requests in flight.
--
-- State   that of the script enter
-- KEYS    the keys, each once
-- ARGV    for each key: how many of its permits are given back, and their ids
-- Reply   an array of the replies for the permits in their order: 1, whether or not it was there, or a text, the error of a
--         command
-- Costs   for each key ZREM
local replies, place = {}, 1
for _, key in ipairs(KEYS) do
  local last = place + ARGV[place]
  local removed = redis.pcall('ZREM', key, unpack(ARGV, place + 1, last))
  for _ = place + 1, last do
    replies[#replies + 1] = type(removed) == 'table' and 'ZREM: ' .. removed.err or 1
  end
  place = last + 1
end
return replies
