-- Several limits, and the tiers of a policy, in one text: all or nothing. Their twins are `Several` and
-- `Tiered` of limiter-core.
--
-- `limits` are those of all tiers, tier by tier, `first` and `last` the numbers of the own tier's.

local function read(text, latest)
  local texts, states, healed, from = {}, {}, false, 1
  for n, limit in ipairs(limits) do
    if not text or from > #text then
      break
    end
    local behind = from + limit.length(text, from)
    texts[n], from = string.sub(text, from, behind - 1), behind
  end
  local each = last - first + 1
  for n, limit in ipairs(limits) do
    -- A tier that is new owes what the first one owes.
    local own = texts[n] or texts[(n - 1) % each + 1]
    local state = { limit.read(own, latest) }
    healed = healed or state[1]
    states[n] = state
  end
  return healed, states
end

local function longest_wait(cost, from, states)
  local longest = 0
  for n = first, last do
    local state = states[n]
    longest = math.max(longest, limits[n].wait(cost, from, state[2], state[3], state[4]))
  end
  return longest
end

local function wait(cost, from, states)
  local longest = longest_wait(cost, from, states)
  if longest == 0 or longest == math.huge then
    return longest
  end
  -- A paced limit, of which there is one at most, has slots that the longest wait may miss. What the
  -- others admit, they admit from then on.
  local more = longest_wait(cost, from + longest, states)
  -- What a ledger has to tell is how long it waits from now on.
  longest_wait(cost, from, states)
  return longest + more
end

-- Those of other tiers have no part in what is waited for.
local function charge(cost, at, states)
  for n, limit in ipairs(limits) do
    local state = states[n]
    if n >= first and n <= last then
      state[2], state[3], state[4] = limit.charge(cost, at, state[2], state[3], state[4])
    else
      state[2], state[3], state[4] = limit.owe(cost, now, state[2], state[3], state[4])
    end
  end
  return states
end

-- The other tiers keep it: they were never the ones to give it.
local function refund(permits, cost, at, has_moved, mark, mark_rem, states)
  local moves = false
  for n = first, last do
    local state, own = states[n], 6 + 2 * (n - first)
    local own_moves
    own_moves, state[2], state[3], state[4] = limits[n].refund(
      permits, cost, at, has_moved, ARGV[own] + 0, ARGV[own + 1] + 0, state[2], state[3], state[4])
    moves = moves or own_moves
  end
  return moves, states
end

local function write(states)
  local texts, till = {}, now
  for n, limit in ipairs(limits) do
    local state = states[n]
    local text, own_till = limit.write(state[2], state[3], state[4])
    texts[n], till = text, math.max(till, own_till)
  end
  return table.concat(texts), till
end

-- A refusal also tells how long all of them have to wait, -1 for ever.
local function reply(admitted, wanted, delay, states)
  local all = {}
  for n = first, last do
    local state = states[n]
    local own = { limits[n].numbers(state[2], state[3], state[4]) }
    own[1] = admitted and own[1] or -own[1]
    for _, number in ipairs(own) do
      all[#all + 1] = number
    end
  end
  if not admitted then
    all[#all + 1] = delay and delay < math.huge and delay or -1
  elseif wanted then
    all[#all + 1] = delay
    all[#all + 1] = now
  end
  return all
end
