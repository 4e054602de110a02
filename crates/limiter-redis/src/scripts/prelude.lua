-- Begins every script. `now` is the server's clock, read once, in microseconds of Unix time. Texts that are
-- known to be digits become numbers by `+ 0`, which takes a third of the time of `tonumber`.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end
