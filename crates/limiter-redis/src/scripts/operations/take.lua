-- Takes permits now, or within some time.
--
-- KEYS[1]  the state of one subject
-- ARGV     the quotas of the limits, in one string of doubles; then cost, within: in permits, and in
--          microseconds, or -1 if they are wanted now and will not be given back
-- Reply    the numbers of each limit, the first of them positive if the cost was admitted, and then
--          with the cost in them, negative or zero if it was refused; and where a receipt is wanted
--          and the cost was admitted, the delay and `now`
-- Cost     TIME and one read; one write if it admits
local cost, within = ARGV[2] + 0, ARGV[3] + 0
local text = load()
local latest = promised > now and promised or now
local healed, a, b, c = read(text, latest)
local delay = wait(cost, now, a, b, c)
local admitted = delay == 0 or delay <= within
if admitted then
  a, b, c = charge(cost, now + delay, a, b, c)
  if delay > 0 and now + delay > promised then
    promised = now + delay
  end
end
-- A refusal writes only what can't stay as it was found.
if admitted or healed then
  local text, till = write(a, b, c)
  if healed then
    since, horizon = now, math.max(till, horizon)
  end
  store(text, till)
end
return reply(admitted, within >= 0, delay, a, b, c)
