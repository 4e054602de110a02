-- Script  list: decides on several limits at once, and reserves, peeks, takes as many permits as fit, or charges whether or not
--         they fit. A request is a list of demands, each a subject, the limits of a policy and a cost. All of it is charged, or
--         nothing. Each request is decided on its own.
--
-- State   a field of a subject's hash for each limit by GCRA or windows, and a list for each log, see below
-- KEYS    for each demand its hash, unless all its limits are logs, and then the list of each log
-- ARGV    for each request the number of its demands; within how many microseconds it reserves, or -1 for a check, -2 to take
--         up to the cost, as much as fits all demands, or -3 to charge each demand in any case: by gcra until the debt is as
--         large as it can be, and by others unless more than the permits count. Then for each demand the number of its limits
--         and the cost: 0 of a peek, and below 0 of a demand that only asks: so many permits have to fit, and are not charged.
--         Then for each limit gcra, fixed, aligned, counter, or for a log loose or strict; the field, or of a log over how
--         many slots it spreads its permits, 0 for none; the permits; and three numbers: of gcra what a permit adds to the
--         debt, the largest debt and how many ticks a microsecond has; of others the length of the window or slot, how far
--         ahead the newest can end or be, and the span of a log.
-- Reply   an array of the replies for the requests, or for one request its reply. `usage` is reset and left for each
--         limit: the time until it is fresh, and the permits left.
--         { 1, usage }                      admitted
--         { 1, usage, delay, now, marks }   reserved; the mark of each limit is for a refund
--         { 1, usage, taken, now, marks }   taken up to the cost, or charged in any case; how many permits each limit was
--                                           charged at least, which may be 0 in any case
--         { 0, usage, waits }               refused, or a peek; how long each limit has to wait: 0 if it fits, -1 if never.
--                                           The longest is that of all, which a paced log among them may make longer
--         text                              the error of a command, such as that of a full memory; nothing is charged,
--                                           unless a command is denied behind the first write
-- Costs   TIME; for each hash HMGET, and if charged those of the script gcra; for each log those of the script log
-- include clock

-- include hash

-- include gcra

-- Decides on a request of one demand whose limits are all by GCRA, and which is admitted now. Returns its reply, and nil for any
-- other. It is for speed alone: `bench redis`, 2 limits.
local function admit_debts(place, within, key)
  local cost, fields, words, reply, lasts, slack = ARGV[place + 1] + 0, {}, {}, { 1 }, 0, 0
  for n = 1, ARGV[place] do
    fields[n] = ARGV[place + 6 * n - 3]
    if ARGV[place + 6 * n - 4] ~= 'gcra' or cost < 1 then
      return nil
    end
  end
  local texts = redis.pcall('HMGET', key, unpack(fields))
  for n = 1, texts.err and 0 or #fields do
    local increment, scale = ARGV[place + 6 * n - 1] + 0, ARGV[place + 6 * n + 1] + 0
    local capacity = ARGV[place + 6 * n - 2] * increment
    local debt, is_damaged = gcra_read(texts[n], scale, capacity, ARGV[place + 6 * n])
    debt = debt + increment * cost
    if debt > capacity or is_damaged then
      return nil
    end
    words[2 * n - 1], words[2 * n] = fields[n], gcra_text(debt, scale)
    reply[2 * n], reply[2 * n + 1] = math.ceil(debt / scale), math.floor((capacity - debt) / increment)
    lasts, slack = math.max(lasts, reply[2 * n]), math.max(slack, capacity / scale)
    reply[2 * #fields + 3 + n] = within == 0 and debt or nil
  end
  if within == 0 then
    reply[2 * #fields + 2], reply[2 * #fields + 3] = 0, now
  end
  return not texts.err and (hash_write(key, words, texts, lasts / 1000 + 2, slack / 1000) or reply) or nil
end

-- Returns the functions that read any request and decide on it. What they need is made for the calls that need it.
local function general()
  -- A family reads a limit, returns the first moment from one on at which a cost fits, the most permits that can be charged now in
  -- any case, charges a cost for a moment and returns its mark, and returns how long the permits last and how many are left. It
  -- returns the text of a field, or writes a log. Only those that a call needs are made.
  local families = {}

  function families.gcra()
    local family = {}

    function family.read(limit)
      limit.debt, limit.is_damaged = gcra_read(limit.text, limit.extra, limit.permits * limit.number, limit.ahead)
    end

    function family.fits(limit, cost, from)
      local excess = limit.debt + (cost - limit.permits) * limit.number
      return cost > limit.permits and math.huge or math.max(from, now + math.ceil(excess / limit.extra))
    end

    function family.most(limit)
      return math.max(math.floor((limit.ahead - limit.debt) / limit.number), 0)
    end

    function family.charge(limit, cost, at)
      limit.debt = math.max(limit.debt, (at - now) * limit.extra) + cost * limit.number
      return limit.debt
    end

    function family.usage(limit)
      local debt = limit.debt
      return math.ceil(debt / limit.extra), math.max(limit.permits - math.ceil(debt / limit.number), 0)
    end

    -- And how much longer a hash may last.
    function family.text(limit)
      return gcra_text(limit.debt, limit.extra), limit.permits * limit.number / limit.extra / 1000
    end

    return family
  end

  function families.window()
    -- include scaled

    -- include window

    -- include windows

    local family = {}

    function family.read(limit)
      limit.ends, limit.count, limit.before, limit.older, limit.is_damaged =
        window_read(limit.kind, limit.permits, limit.number, limit.ahead, limit.text)
    end

    function family.fits(limit, cost, from)
      return window_fits(limit.kind, limit.permits, limit.number, cost, from, limit.ends, limit.count, limit.before)
    end

    -- Any number until more than the permits count. A count stays far below the largest one that is read.
    function family.most(limit)
      local _, left = family.usage(limit)
      return family.fits(limit, 0, now) == now and math.max(left, 1e14 - limit.count) or 0
    end

    function family.charge(limit, cost, at)
      windows_charge(limit, cost, at)
      return limit.ends - now
    end

    function family.usage(limit)
      return window_usage(limit.kind, limit.permits, limit.number, limit.ends, limit.count, limit.before)
    end

    function family.text(limit)
      local text = window_text(limit.kind, limit.number, limit.ends, limit.count, limit.before)
      return text .. limit.older, limit.number / 1000
    end

    return family
  end

  function families.log()
    -- include log

    local family = { read = log_read, write = log_write }

    -- Returns how many permits a paced window admits in the slot of a moment.
    local function ceiling(limit, at)
      local n, slots = math.floor(at / limit.number) % limit.slots, limit.slots
      local even, rest = math.floor(limit.permits / slots), limit.permits % slots
      return even + math.floor(rest * (n + 1) / slots) - math.floor(rest * n / slots)
    end

    -- Returns how many permits the slot of a moment has by now, which is not before that of the newest entry.
    local function in_slot(limit, at)
      return limit.at - limit.at % limit.number == at - at % limit.number and limit.count or 0
    end

    function family.fits(limit, cost, from)
      local at, slots = log_fits(limit, cost, from), limit.slots
      if slots == 0 or at == math.huge or in_slot(limit, at) + cost <= ceiling(limit, at) then
        return at
      end
      local even, rest = math.floor(limit.permits / slots), limit.permits % slots
      if cost > even + (rest > 0 and 1 or 0) then
        return math.huge
      end
      local number = math.floor(at / limit.number) + 1
      if cost > even then
        -- `rest` of every `slots` slots admit one permit more, spread evenly. This is the next of them.
        local n = number % slots
        number = number - n + math.ceil((math.floor(n * rest / slots) + 1) * slots / rest) - 1
      end
      return number * limit.number
    end

    -- As by windows.
    function family.most(limit)
      local counts = limit.at - limit.at % limit.number <= now and limit.sum <= limit.permits
      return counts and math.max(limit.permits - limit.sum, 1e14 - limit.sum) or 0
    end

    function family.charge(limit, cost, at)
      return log_charge(limit, cost, at) - now
    end

    function family.usage(limit)
      local reset, left = log_usage(limit)
      local room = limit.slots > 0 and ceiling(limit, now) - in_slot(limit, now) or left
      return reset, math.max(math.min(left, room), 0)
    end

    return family
  end

  local family_of = { gcra = 'gcra', fixed = 'window', aligned = 'window', counter = 'window', loose = 'log', strict = 'log' }

  -- Reads a demand from a place of ARGV on, and a number of KEYS, into the limits and the hashes of its request. Returns the place
  -- and the number behind it, and the error of a command.
  local function read(place, key, limits, hashes)
    local number, cost, fields, failed = ARGV[place] + 0, ARGV[place + 1] + 0, {}, nil
    local hash = { key = KEYS[key + 1], first = #limits + 1, last = #limits + number }
    for n = hash.first, hash.last do
      local kind, field, permits, length, ahead, extra = unpack(ARGV, place + 2, place + 7)
      local family = families[family_of[kind]]
      if type(family) == 'function' then
        family = family()
        families[family_of[kind]] = family
      end
      limits[n] = { kind = kind, field = field, permits = permits + 0, number = length + 0, ahead = ahead + 0,
        extra = extra + 0, cost = cost < 0 and -cost or cost, only_asks = cost < 0, family = family, text = false, debt = 0,
        is_damaged = false, is_charged = false }
      fields[#fields + 1], place = not family.write and field or nil, place + 6
    end
    if fields[1] then
      key, hashes[#hashes + 1] = key + 1, hash
      local texts, read = redis.pcall('HMGET', hash.key, unpack(fields)), 0
      failed = texts.err and 'HMGET: ' .. texts.err
      for n = hash.first, failed and 0 or hash.last do
        if not limits[n].family.write then
          read = read + 1
          limits[n].text = texts[read]
          limits[n].family.read(limits[n])
        end
      end
    end
    for n = hash.first, hash.last do
      local limit = limits[n]
      if limit.family.write then
        key = key + 1
        limit.key, limit.slots, limit.span = KEYS[key], limit.field + 0, limit.extra
        failed = failed or limit.family.read(limit)
      end
    end
    return place + 2, key, failed
  end

  -- Returns when the costs of all limits fit, from a moment on, their waits, and the number of the longest one.
  local function all_fit(limits, from)
    local latest, waits, longest = from, {}, 1
    for n, limit in ipairs(limits) do
      local fits = limit.family.fits(limit, limit.cost, from)
      waits[n] = fits < math.huge and fits - now or -1
      if fits >= latest then
        latest, longest = fits, n
      end
    end
    return latest, waits, longest
  end

  -- Writes the hashes and the logs that were charged or are damaged. Returns the error of a command.
  local function write(limits, hashes)
    for _, hash in ipairs(hashes) do
      local words, before, lasts, slack = {}, {}, 0, 0
      for n = hash.first, hash.last do
        local limit = limits[n]
        if not limit.family.write and (limit.is_charged or limit.is_damaged) then
          local text, more = limit.family.text(limit)
          lasts, slack = math.max(lasts, limit.reset), math.max(slack, more)
          words[#words + 1], words[#words + 2], before[#before + 1] = limit.field, text, limit.text
        end
      end
      local failed = words[1] and hash_write(hash.key, words, before, lasts / 1000 + 2, slack)
      if failed then
        return failed
      end
    end
    for _, limit in ipairs(limits) do
      local must_write = limit.is_charged or limit.is_damaged
      local failed = limit.key and (must_write or limit.past > 64) and limit.family.write(limit)
      -- If only entries that are past are to go, and that is refused, nothing has changed.
      if failed and must_write then
        return failed
      end
    end
  end

  -- Decides on a request. Returns its reply.
  local function decide(limits, hashes, within)
    local may_charge, taken = true, math.huge
    for _, limit in ipairs(limits) do
      may_charge = may_charge and limit.cost > 0
      if within == -2 then
        local _, left = limit.family.usage(limit)
        taken = math.min(taken, limit.cost, math.max(left, 1))
      end
    end
    for _, limit in ipairs(within == -2 and limits or {}) do
      limit.cost = taken
    end
    local fits, waits, longest = all_fit(limits, now)
    fits = within == -3 and now or fits
    if fits > now and fits < math.huge then
      -- The slots of a paced limit may miss the moment at which the others fit.
      fits = all_fit(limits, fits)
      waits[longest] = fits - now
    end
    local is_admitted, reply, marks = may_charge and fits <= now + math.max(within, 0), { 0 }, {}
    taken = math.huge
    for n, limit in ipairs(limits) do
      if is_admitted then
        local cost = within == -3 and math.min(limit.cost, limit.family.most(limit)) or limit.cost
        taken, limit.is_charged = math.min(taken, cost), cost > 0 and not limit.only_asks
        reply[1], marks[n] = 1, limit.is_charged and limit.family.charge(limit, cost, fits) or 0
      end
      limit.reset, limit.left = limit.family.usage(limit)
      reply[2 * n], reply[2 * n + 1] = limit.reset, limit.left
    end
    -- Also of a refusal: without its repair, an impossible state would be full from each later moment anew.
    local failed = write(limits, hashes)
    if failed and is_admitted then
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

  return read, decide
end

local replies, place, key, read, decide = {}, 1, 0, nil, nil
while ARGV[place] do
  local demands, within = ARGV[place] + 0, ARGV[place + 1] + 0
  local reply = demands == 1 and (within == -1 or within == 0) and admit_debts(place + 2, within, KEYS[key + 1])
  place = place + 2
  if reply then
    place, key = place + 6 * ARGV[place] + 2, key + 1
  else
    if not read then
      read, decide = general()
    end
    local limits, hashes, failed = {}, {}, nil
    for _ = 1, demands do
      local of_demand
      place, key, of_demand = read(place, key, limits, hashes)
      failed = failed or of_demand
    end
    reply = failed or decide(limits, hashes, within)
  end
  replies[#replies + 1] = reply
end
if #replies == 1 then
  return replies[1]
end
return replies
