-- Script  policy: checks, reserves or peeks where one of the scripts gcra, window, counter and log can't decide: for several
--         limits, and for states of several quotas, damaged ones and those that have not begun; and takes as many
--         permits as fit, or charges whether or not they fit. A request has one or more demands, each a limit, its key
--         and a cost. All of them are charged, or none. Each request is decided on its own.
--
-- State   that of the scripts gcra, window, counter and log, and:
--         Windows of quotas with several lengths are joined by `, `, at most four. A window from which also shorter
--         quotas take theirs, or whose end does not follow from its length, has two more numbers: the shortest
--         length, and the end. A window that is reserved follows the present one in the same way.
--         A log that quotas of several spans have charged has their `slot span horizon newest` in element 0 behind `, `,
--         where newest is when the last permit was taken that counts for that span.
-- KEYS    the keys of all demands, in the order of the requests
-- ARGV    for each request the number of its demands; within how many microseconds it reserves, or -1 for a check, -2 to
--         take up to the cost, as much as fits all demands, or -3 to charge each demand in any case: by gcra up to the
--         reach, and by others unless more than the permits count; then for each
--         demand its kind, which is gcra, fixed, aligned, counter, or for a log loose or strict; the quota as the state
--         has it; the permits; a number: of gcra the increment in ticks, of a window its length, of a log the slots that
--         its pace spreads the permits over, or 0; and the cost. A cost of 0 makes the request a peek. A cost below 0 is
--         of a demand that only asks: so many permits have to fit, and are not charged
-- Reply   an array of the replies for the requests, or for one request its reply. `usage` is reset and left for each
--         demand: the time until its key is fresh, and the permits left.
--         { 1, usage }                      admitted
--         { 1, usage, delay, now, marks }   reserved; the mark of each demand is for a refund
--         { 1, usage, taken, now, marks }   taken up to the cost, or charged in any case; how many permits each demand was
--                                           charged at least, which may be 0 in any case
--         { 0, usage, waits }               refused, or a peek; how long each demand has to wait: 0 if it fits, -1 if never.
--                                           The longest is that of all, which a paced log among them may make longer
--         text                              the error of a command, such as that of a full memory; nothing is charged,
--                                           unless a command is denied behind the first write
-- Costs   TIME; for each demand GET, or for a log LRANGE and LLEN; if admitted or damaged SET, or for a log LSET, RPUSH and
--         LTRIM as needed, and PEXPIRE; for a log LRANGE again for each 64 entries that are read
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Decides on a request whose limits are all by GCRA, with states that their quotas left in whole microseconds, and which is
-- admitted now. Returns its reply, nil for any other. It is for speed alone: `bench redis`, 2 limits, and `--lists`.
local function admit_debts(first_key, place)
  local reply, written = { 1 }, {}
  for n = 1, ARGV[place] + 0 do
    local kind, quota, permits, increment, cost = unpack(ARGV, place + 5 * n - 3, place + 5 * n + 1)
    if kind ~= 'gcra' or cost + 0 < 1 or string.find(quota, '.', 1, true) then
      return nil
    end
    local text = redis.pcall('GET', KEYS[first_key + n])
    local tat = text and type(text) == 'string' and string.sub(text, 17) == quota and string.match(text, '^(%d+) ')
    if text and not tat then
      return nil
    end
    local debt = (tat and math.max(tat - now, 0) or 0) + increment * cost
    if debt > increment * permits then
      return nil
    end
    written[n], reply[2 * n], reply[2 * n + 1] = string.format('%d', now + debt) .. quota, debt,
      math.floor((increment * permits - debt) / increment)
  end
  for n, text in ipairs(written) do
    local set = redis.pcall('SET', KEYS[first_key + n], text, 'PX', math.ceil(reply[2 * n] / 1000) + 1)
    if set.err then
      return 'SET: ' .. set.err
    end
  end
  if ARGV[place + 1] == '0' then
    reply[#reply + 1], reply[#reply + 2] = 0, now
    for n = 1, #written do
      reply[#reply + 1] = reply[2 * n]
    end
  end
  return reply
end

-- Returns the function that decides on any request. What it needs is made for the calls that need it.
local function general()
  -- include scaled

  -- Returns a function that writes a state as text, and returns the error of that.
  local function write_text(text_of)
    return function(limit)
      local text, lasts = text_of(limit)
      local set = redis.pcall('SET', limit.key, text, 'PX', math.ceil(lasts / 1000) + 1)
      return set.err and 'SET: ' .. set.err
    end
  end

  -- A family has functions to read the state of a limit, to return from when on a cost fits, to return the most permits that
  -- can be charged now in any case, to charge a cost for a moment and return its mark, to return the usage, and to write the
  -- state. Only those that a call needs are made.
  local families = {}

  function families.gcra()
    -- include gcra

    local function fits(limit, from)
      local excess = limit.debt - (limit.permits - limit.cost) * limit.increment
      return limit.cost > limit.permits and math.huge or math.max(from, now + math.ceil(excess / limit.scale))
    end

    -- Returns the debt at a moment in ticks of the quota: of another one as many permits, rounded up.
    local function own_debt(limit, at)
      local debt = math.max(limit.debt - (at - now) * limit.scale, 0)
      if not limit.is_foreign then
        return debt
      end
      local rest = debt % limit.increment
      return (debt - rest) / limit.increment * limit.number + scaled(rest, limit.number, limit.increment)
    end

    local function most(limit)
      local reach = string.gsub(string.match(limit.quota, '%S+$'), '%.', '')
      return math.max(math.floor((reach - own_debt(limit, now)) / limit.number), 0)
    end

    local function charge(limit, at)
      local scale = limit.own_scale
      limit.debt = (at - now) * scale + own_debt(limit, at) + limit.cost * limit.number
      limit.increment, limit.scale, limit.writer = limit.number, scale, limit.quota
      return limit.debt
    end

    local function usage(limit)
      local used = math.ceil(limit.debt / limit.increment)
      return math.ceil(limit.debt / limit.scale), math.max(limit.permits - used, 0)
    end

    return { read = gcra_read, fits = fits, most = most, charge = charge, usage = usage, write = write_text(gcra_text) }
  end

  function families.window()
    -- include window

    -- include family_window
  end

  function families.log()
    -- include log

    -- include family_log
  end

  local family_of = { gcra = 'gcra', fixed = 'window', aligned = 'window', counter = 'window', loose = 'log', strict = 'log' }

  -- Returns when the costs of all limits fit, from a moment on, their waits, and the number of the longest one.
  local function all_fit(limits, from)
    local latest, waits, longest = from, {}, 1
    for n, limit in ipairs(limits) do
      local fits = limit.family.fits(limit, from)
      waits[n] = fits < math.huge and fits - now or -1
      if fits >= latest then
        latest, longest = fits, n
      end
    end
    return latest, waits, longest
  end

  -- Decides on a request. Returns its reply.
  local function decide(limits, within)
    local allowed, may_charge, taken = within, true, math.huge
    for _, limit in ipairs(limits) do
      local name = family_of[limit.kind]
      if type(families[name]) == 'function' then
        families[name] = families[name]()
      end
      limit.family = families[name]
      local found = name == 'log' and redis.pcall('LRANGE', limit.key, 0, 0) or name ~= 'log' and redis.pcall('GET', limit.key)
      if type(found) == 'table' and found.err then
        return (name == 'log' and 'LRANGE: ' or 'GET: ') .. found.err
      end
      limit.text = name == 'log' and found[1] or name ~= 'log' and found or nil
    end
    for _, limit in ipairs(limits) do
      limit.family.read(limit)
      may_charge = may_charge and limit.cost > 0
      -- Nothing is promised behind the permits of another quota.
      allowed = limit.is_foreign and 0 or allowed
    end
    for _, limit in ipairs(within == -2 and limits or {}) do
      local _, left = limit.family.usage(limit)
      taken = math.min(taken, limit.cost, left)
    end
    -- At least one, also where a damaged log has a total that is not the sum of its entries.
    taken = math.max(taken, 1)
    for _, limit in ipairs(limits) do
      limit.cost = within == -2 and taken or limit.cost
    end
    local fits, waits, longest = all_fit(limits, now)
    fits = within == -3 and now or fits
    if fits > now and fits < math.huge then
      -- The slots of a paced limit may miss the moment at which the others fit.
      fits = all_fit(limits, fits)
      waits[longest] = fits - now
    end
    local is_admitted, reply, marks = may_charge and fits <= now + math.max(allowed, 0), { 0 }, {}
    for n, limit in ipairs(limits) do
      if is_admitted then
        limit.cost = within == -3 and math.min(limit.cost, limit.family.most(limit)) or limit.cost
        taken, limit.is_charged = math.min(taken, limit.cost), limit.cost > 0 and not limit.only_asks
        reply[1], marks[n] = 1, limit.is_charged and limit.family.charge(limit, fits) or 0
      end
      reply[2 * n], reply[2 * n + 1] = limit.family.usage(limit)
    end
    local failed
    for _, limit in ipairs(limits) do
      if not failed and (limit.is_charged or limit.is_damaged) then
        failed = limit.family.write(limit)
      end
    end
    -- Also of a refusal: without its repair, an impossible state would be full from each later moment anew.
    if failed then
      return failed
    end
    if is_admitted and within ~= -1 then
      reply[#reply + 1], reply[#reply + 2] = within < 0 and taken or fits - now, now
    end
    for _, number in ipairs(not is_admitted and waits or within ~= -1 and marks or {}) do
      reply[#reply + 1] = number
    end
    return reply
  end

  return decide
end

local replies, key, place, decide = {}, 0, 1, nil
while ARGV[place] do
  local count, within, limits = ARGV[place] + 0, ARGV[place + 1] + 0, {}
  local reply = (within == -1 or within == 0) and admit_debts(key, place)
  for n = 1, reply and 0 or count do
    local kind, quota, permits, number, cost = unpack(ARGV, place + 5 * n - 3, place + 5 * n + 1)
    limits[n] = { key = KEYS[key + n], kind = kind, quota = quota, permits = permits + 0, number = number + 0 }
    limits[n].cost, limits[n].only_asks = math.abs(cost), cost + 0 < 0
  end
  decide = decide or not reply and general()
  replies[#replies + 1] = reply or decide(limits, within)
  key, place = key + count, place + 5 * count + 2
end
if #replies == 1 then
  return replies[1]
end
return replies
