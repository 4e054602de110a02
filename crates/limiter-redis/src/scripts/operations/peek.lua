-- Looks at a state and takes nothing.
--
-- KEYS[1]  the state of one subject
-- ARGV     the quotas of the limits, in one string of doubles
-- Reply    the numbers of each limit, as of a refusal
-- Cost     TIME and one read
local text = load()
local latest = promised > now and promised or now
local healed, a, b, c = read(text, latest)
return reply(false, false, 0, a, b, c)
