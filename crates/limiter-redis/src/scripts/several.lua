-- Script  several: checks keys by all limits of a policy, all or nothing, each key on its own; reserves; or peeks.
--
-- State   the states of the limits, joined by `, `, a fresh one as `-`: see the scripts gcra, window, counter and log,
--         whose elements are joined by `;`
-- KEYS    the keys, of which some may be the same
-- ARGV    for each key, of each limit: its kind, which is gcra, fixed, aligned, counter, or of a log loose or strict; its
--         quota as a state has it; its permits; and a number: by GCRA the increment in ticks, of a window its length, of
--         a log the slots that a paced one spreads its permits over, else 0. Then the cost for each key, 0 to peek, and
--         for a reservation of one key, within how many microseconds. Without costs, each is 1
-- Reply   for each key, alone if there is one: after an admission, for each limit the time until it is fresh and the
--         permits left, and for a reservation its delay, now, and each limit's mark; after a refusal 0, the wait or -1
--         for ever, the number of the limit that has it, and these times and permits; and a text last if a lost expiry
--         was not restored. A text alone is why the key was not checked
-- Costs   TIME, and for each key GET, then SET if admitted, else PTTL

-- include clock

-- include scaled

-- include restore_expiry

-- include gcra

-- include window

-- include log

-- include log_text

-- include log_take

-- Of each family: how to read a state, when a cost fits, to charge it, what is left, and what is written.
local gcra = {
  read = function(text, limit)
    local debt, increment, scale, quota, is_impossible = gcra_read(text, limit.quota, limit.most, limit.number)
    return { debt = debt, increment = increment, scale = scale, quota = quota, is_impossible = is_impossible,
      is_foreign = quota ~= limit.quota }
  end,
  fits = function(state, limit, cost, from)
    local excess = state.debt - (limit.most - cost) * state.increment
    return cost > limit.most and math.huge or math.max(from, now + math.ceil(excess / state.scale))
  end,
  charge = function(state, limit, cost, at)
    local debt = math.max(state.debt - (at - now) * state.scale, 0)
    debt = gcra_converted(debt, state.increment, limit.number) + cost * limit.number
    local scale = string.find(limit.quota, '.', 1, true) and 10000 or 1
    debt = debt + (at - now) * scale
    return { debt = debt, increment = limit.number, scale = scale, quota = limit.quota }, debt
  end,
  usage = function(state, limit)
    return math.ceil(state.debt / state.scale), math.max(limit.most - math.ceil(state.debt / state.increment), 0)
  end,
  write = function(state)
    return gcra_text(state.debt, state.scale, state.quota), math.ceil(state.debt / state.scale)
  end,
}

local window = {
  read = window_read,
  fits = function(state, limit, cost, from)
    local room, current = limit.most - cost, window_at(state, limit, from)
    local fits = current.ends - current.length
    if current.count > room then
      -- In the next window, in which the permits of a counter fade.
      local fades = limit.kind == 'counter' and room >= 0
      fits = current.ends + (fades and scaled(current.count - room, current.length, current.count) or 0)
    elseif current.count + current.previous > room then
      fits = fits + scaled(current.count + current.previous - room, current.length, current.previous)
    end
    return room < 0 and math.huge or math.max(from, fits)
  end,
  charge = function(state, limit, cost, at)
    state = window_at(state, limit, at)
    if state.length ~= limit.number then
      -- What counts of a window of another length begins to count anew.
      state = { ends = window_end(limit, at, limit.number), length = limit.number, count = window_counted(state, at),
        previous = 0 }
    end
    state.count, state.quota = state.count + cost, limit.quota
    return state, state.ends - now
  end,
  usage = function(state, limit)
    local remaining = math.max(limit.most - window_counted(state, now), 0)
    return math.max(window_over(state, limit) - now, 0), state.ends - state.length <= now and remaining or 0
  end,
  write = window_text,
}

local log = {
  read = function(text, limit)
    return log_read(log_split(text), limit)
  end,
  fits = log_fits,
  charge = log_charge,
  usage = log_usage,
  write = log_text,
}

local families = { gcra = gcra, fixed = window, aligned = window, counter = window, loose = log, strict = log }

-- Returns when a cost fits all limits, from a moment on, and the number of the limit with the longest wait.
local function all_fit(limits, states, cost, from)
  local latest, longest = from, 1
  for n, limit in ipairs(limits) do
    local fits = limit.family.fits(states[n], limit, cost, from)
    if fits >= latest then
      latest, longest = fits, n
    end
  end
  return latest, longest
end

-- Checks one key, and returns its reply.
local function check(key, limits, cost, within)
  local text = redis.pcall('GET', key)
  if type(text) == 'table' then
    return 'GET: ' .. text.err
  end
  local states, found, is_impossible, is_foreign = {}, string.gmatch((text or '') .. ', ', '(.-), '), false, false
  for n, limit in ipairs(limits) do
    limit.found = text and (found() or '') or '-'
    states[n] = limit.family.read(limit.found ~= '-' and limit.found or nil, limit)
    is_impossible, is_foreign = is_impossible or states[n].is_impossible, is_foreign or states[n].is_foreign
  end
  local fits, longest = all_fit(limits, states, cost, now)
  if fits > now and fits < math.huge then
    -- The slots of a paced limit may miss the moment at which the others fit.
    fits = all_fit(limits, states, cost, fits)
  end
  -- Nothing is promised behind the debt of another quota.
  local is_admitted = cost > 0 and fits <= now + (is_foreign and 0 or within or 0)
  local reply, written, marks, lasts = is_admitted and {} or { 0, fits < math.huge and fits - now or -1, longest }, {}, {}, 0
  for n, limit in ipairs(limits) do
    if is_admitted then
      states[n], marks[n] = limit.family.charge(states[n], limit, cost, fits)
    end
    local reset, remaining = limit.family.usage(states[n], limit)
    local state, matters = limit.family.write(states[n], limit)
    reply[#reply + 1], reply[#reply + 2] = reset, remaining
    state = (is_admitted or states[n].is_impossible) and state or limit.found
    written[n], lasts = matters > 0 and state or '-', math.max(lasts, matters)
  end
  if is_admitted or is_impossible then
    redis.call('SET', key, table.concat(written, ', '), 'PX', math.ceil(lasts / 1000) + 1)
  elseif text then
    reply[#reply + 1] = restore_expiry(key, lasts)
  end
  for n, number in ipairs(is_admitted and within and { fits - now, now, unpack(marks) } or {}) do
    reply[2 * #limits + n] = number
  end
  return reply
end

local replies, count = {}, math.floor(#ARGV / #KEYS / 4)
for i, key in ipairs(KEYS) do
  local limits = {}
  for n = 1, count do
    local k = 4 * (i - 1) * count + 4 * n
    limits[n] = { kind = ARGV[k - 3], quota = ARGV[k - 2], most = ARGV[k - 1] + 0, number = ARGV[k] + 0 }
    limits[n].family = families[limits[n].kind]
  end
  local costs = 4 * #KEYS * count
  replies[i] = check(key, limits, (ARGV[costs + i] or 1) + 0, tonumber(ARGV[costs + #KEYS + 1]))
end
return #KEYS == 1 and replies[1] or replies
