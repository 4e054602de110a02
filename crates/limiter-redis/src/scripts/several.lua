-- Script  several: checks keys by all limits of a policy, reserves permits of a key, or peeks. All limits of a key admit,
--         or none is charged. Each key is decided on its own.
--
-- State   the states of the limits, joined by `, `, with `-` for a fresh one. The scripts gcra, window, counter and log
--         describe them; here the elements of a log are joined by `;`.
-- KEYS    the keys; a key may occur twice
-- ARGV    for each key and each of its limits: the kind, which is gcra, fixed, aligned, counter, or for a log loose or
--         strict; the quota as the state has it; the permits; and a number: of gcra the increment in ticks, of a window
--         its length, of a log the number of slots that its pace spreads the permits over, or 0. Then for each key the
--         cost, 0 to peek, and for a reservation of one key, within how many microseconds. Without costs, each cost is 1.
-- Reply   an array of the replies for the keys, or for one key its reply. `limits` is reset and left for each limit: the
--         time until it is fresh, and the permits left.
--         { limits }                      admitted
--         { limits, delay, now, marks }   reserved; the mark of each limit is for a refund
--         { 0, wait, number, limits }     refused, or a peek; the wait, -1 for ever, and the number of the limit that
--                                         has it
--         { 0, ..., text }                the error of PTTL or PEXPIRE, so that a lost expiry was not restored
--         text                            the error of GET; nothing is charged
-- Costs   TIME; for each key GET, then SET if admitted or damaged, else PTTL

-- include clock

-- Checks a key by limits of all kinds and states. Returns its reply.
local function check_other(key, text, limits, cost, within)
  if type(text) == 'table' then
    return 'GET: ' .. text.err
  end

  -- include scaled

  -- include restore_expiry

  -- Each returns the functions of a family: to read a state, when a cost fits from a moment on, to charge it then, what
  -- is left, and the state as text. A policy makes those of its own families only.
  local families = {}

  function families.gcra()
    -- include gcra

    -- include gcra_converted

    local function read(text, limit)
      local debt, increment, scale, quota, is_damaged = gcra_read(text, limit.quota, limit.most, limit.number)
      return { debt = debt, increment = increment, scale = scale, quota = quota, is_damaged = is_damaged,
        is_foreign = quota ~= limit.quota }
    end
    local function fits(state, limit, cost, from)
      local excess = state.debt - (limit.most - cost) * state.increment
      return cost > limit.most and math.huge or math.max(from, now + math.ceil(excess / state.scale))
    end
    local function charge(state, limit, cost, at)
      local debt = math.max(state.debt - (at - now) * state.scale, 0)
      if state.is_foreign then
        debt = gcra_converted(debt, state.increment, limit.number)
        state.scale = string.find(limit.quota, '.', 1, true) and 10000 or 1
      end
      state.debt = (at - now) * state.scale + debt + cost * limit.number
      state.increment, state.quota = limit.number, limit.quota
      return state, state.debt
    end
    local function usage(state, limit)
      return math.ceil(state.debt / state.scale), math.max(limit.most - math.ceil(state.debt / state.increment), 0)
    end
    local function write(state)
      return gcra_text(state.debt, state.scale, state.quota), math.ceil(state.debt / state.scale)
    end
    return { read = read, fits = fits, charge = charge, usage = usage, write = write }
  end

  function families.window()
    -- include window

    -- include window_counted

    local function fits(state, limit, cost, from)
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
    end
    local function charge(state, limit, cost, at)
      state = window_at(state, limit, at)
      if state.length ~= limit.number then
        -- The permits of a window of another length are carried into a new window.
        state = { ends = window_end(limit, at, limit.number), length = limit.number, count = window_counted(state, at),
          previous = 0 }
      end
      state.count, state.quota = state.count + cost, limit.quota
      return state, state.ends - now
    end
    local function usage(state, limit)
      local left = math.max(limit.most - window_counted(state, now), 0)
      return math.max(window_over(state, limit) - now, 0), state.ends - state.length <= now and left or 0
    end
    return { read = window_read, fits = fits, charge = charge, usage = usage, write = window_text }
  end

  function families.log()
    -- include log

    -- include log_text

    -- include log_take

    return { read = log_parse, fits = log_fits, charge = log_charge, usage = log_usage, write = log_text }
  end

  local family_of = { gcra = 'gcra', fixed = 'window', aligned = 'window', counter = 'window', loose = 'log', strict = 'log' }

  -- Returns when a cost fits all limits, from a moment on, and the number of the limit with the longest wait.
  local function all_fit(limits, cost, from)
    local latest, longest = from, 1
    for n = 1, #limits do
      local fits = limits[n].family.fits(limits[n].state, limits[n], cost, from)
      if fits >= latest then
        latest, longest = fits, n
      end
    end
    return latest, longest
  end

  local made = {}
  for n = 1, #limits do
    local name = family_of[limits[n].kind]
    made[name] = made[name] or families[name]()
    limits[n].family = made[name]
  end
  local from, is_damaged, is_foreign = 1, false, false
  for n = 1, #limits do
    local limit, comma = limits[n], text and string.find(text, ', ', from, true) or 0
    limit.found = text and string.sub(text, from, comma - 1) or '-'
    limit.state = limit.family.read(limit.found ~= '-' and limit.found or nil, limit)
    is_damaged, is_foreign = is_damaged or limit.state.is_damaged, is_foreign or limit.state.is_foreign
    from = comma > 0 and comma + 2 or text and #text + 1
  end
  local fits, longest = all_fit(limits, cost, now)
  if fits > now and fits < math.huge then
    -- The slots of a paced limit may miss the moment at which the others fit.
    fits = all_fit(limits, cost, fits)
  end
  -- Nothing is promised behind the debt of another quota.
  local is_admitted = cost > 0 and fits <= now + (is_foreign and 0 or within or 0)
  local written, marks, lasts, reply = {}, {}, 0, nil
  reply = is_admitted and {} or { 0, fits < math.huge and fits - now or -1, longest }
  local place = #reply
  for n = 1, #limits do
    local limit, state, matters = limits[n], nil, nil
    if is_admitted then
      limit.state, marks[n] = limit.family.charge(limit.state, limit, cost, fits)
    end
    reply[place + 1], reply[place + 2] = limit.family.usage(limit.state, limit)
    state, matters = limit.family.write(limit.state, limit)
    state = (is_admitted or limit.state.is_damaged) and state or limit.found
    written[n], lasts, place = matters > 0 and state or '-', math.max(lasts, matters), place + 2
  end
  if is_admitted or is_damaged then
    redis.call('SET', key, table.concat(written, ', '), 'PX', math.ceil(lasts / 1000) + 1)
  elseif text then
    reply[place + 1] = restore_expiry(key, lasts)
  end
  if is_admitted and within then
    reply[place + 1], reply[place + 2] = fits - now, now
    for n = 1, #limits do
      reply[place + 2 + n] = marks[n]
    end
  end
  return reply
end

local replies, count = {}, math.floor(#ARGV / #KEYS / 4)
for i, key in ipairs(KEYS) do
  local costs = 4 * #KEYS * count
  local cost, within = (ARGV[costs + i] or 1) + 0, tonumber(ARGV[costs + #KEYS + 1])
  local text, states, reply, from, lasts = redis.pcall('GET', key), {}, {}, 1, 0
  -- Mostly all limits are by GCRA, their states are those of their quotas in whole microseconds, and all admit.
  local is_own, k = cost > 0 and not within and type(text) ~= 'table', 4 * (i - 1) * count
  for n = 1, is_own and count or 0 do
    local quota, increment, debt = ARGV[k + 4 * n - 2], ARGV[k + 4 * n] + 0, 0
    local comma = text and string.find(text, ', ', from, true) or 0
    if text and string.sub(text, from + 16, comma - 1) == quota then
      -- Not -inf or nan, which Lua takes for numbers.
      debt = (tonumber(string.sub(text, from, from + 15)) or math.huge) - now
      debt = debt >= -now and math.max(debt, 0) or math.huge
    elseif text and string.sub(text, from, comma - 1) ~= '-' then
      debt = math.huge
    end
    local left = ARGV[k + 4 * n - 1] - cost - math.ceil(debt / increment)
    if left < 0 or ARGV[k + 4 * n - 3] ~= 'gcra' or string.find(quota, '.', 1, true) then
      is_own = false
      break
    end
    debt, from = debt + cost * increment, comma > 0 and comma + 2 or text and #text + 1
    states[n], lasts = string.format('%d', now + debt) .. quota, math.max(lasts, debt)
    reply[2 * n - 1], reply[2 * n] = debt, left
  end
  if is_own then
    redis.call('SET', key, table.concat(states, ', '), 'PX', math.ceil(lasts / 1000) + 1)
  else
    local limits = {}
    for n = 1, count do
      local kind, quota, most, number = unpack(ARGV, k + 4 * n - 3, k + 4 * n)
      limits[n] = { kind = kind, quota = quota, most = most + 0, number = number + 0 }
    end
    reply = check_other(key, text, limits, cost, within)
  end
  replies[i] = reply
end
return #KEYS == 1 and replies[1] or replies
