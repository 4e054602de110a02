-- Opens every script: `now`, in whole microseconds since 13 September 2020, 12:26:40 UTC, by the
-- server's clock. So late a start leaves room for the farthest promise in what a double counts exactly.
local call, format, to_bytes, from_bytes = redis.call, string.format, struct.pack, struct.unpack
local time = call('TIME')
local now = (time[1] - 1600000000) * 1000000 + time[2]
if now < 0 then
  now = 0
end
