-- Opens every script: `now`, in whole microseconds by the server's clock.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
