-- Opens every script: `now`, in whole microseconds since 13 September 2020, 12:26:40 UTC, by the
-- server's clock. So late a start leaves a time with 15 digits until 2052.
local call, format, match = redis.call, string.format, string.match
local time = call('TIME')
local now = (time[1] - 1600000000) * 1000000 + time[2]
if now < 0 then
  now = 0
end
