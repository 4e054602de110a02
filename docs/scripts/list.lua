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
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Writes fields of a hash, `{ field, text, field, text }`, so that it lasts for so long, in milliseconds, and some more. Returns
-- the error of a command: then it has the texts of before.
local function hash_write(key, words, before, lasts, slack)
  local ttl, created = redis.call('PTTL', key), redis.pcall('HSET', key, unpack(words))
  if type(created) == 'table' then
    return 'HSET: ' .. created.err
  end
  if ttl == -1 or ttl >= 0 and created > 0 then
    -- The hash had other fields only, or no expiry: what is past goes, and nothing is forgotten early.
    local all = redis.pcall('HGETALL', key)
    for n = 1, #all, 2 do
      local past = string.match(all[n + 1], '^%d+')
      if past and #past == 16 and past + 0 < now then
        redis.pcall('HDEL', key, all[n])
      elseif past and #past == 16 then
        lasts = math.max(lasts, (past - now) / 1000 + 2)
      end
    end
  end
  local expires = ttl < lasts and redis.pcall('PEXPIRE', key, math.ceil(lasts + slack))
  if type(expires) == 'table' then
    for n = 1, #words / 2 do
      if before[n] then
        redis.call('HSET', key, words[2 * n - 1], before[n])
      else
        redis.call('HDEL', key, words[2 * n - 1])
      end
    end
    return 'PEXPIRE: ' .. expires.err
  end
end

-- GCRA: a debt in ticks, of which a microsecond has 1 or 10000. Its text is the theoretical arrival time (TAT), at which it is
-- paid off, in microseconds of Unix time, with four decimals if a permit does not add a whole number of them.

-- Returns the debt of a text, and whether none is that large under any quota of the span: then it is a whole burst.
local function gcra_read(text, scale, capacity, most)
  if not text then
    return 0, false
  end
  local tat, part = #text == 16 and not string.find(text, '%D') and text, 0
  if not tat and #text == 21 then
    tat, part = string.match(text, '^(%d+)%.(%d%d%d%d)$')
  end
  local debt = tat and math.max((tat - now) * scale + math.ceil(part * scale / 10000), 0) or math.huge
  if debt > capacity and debt > most * 513 / 512 + 10 * scale then
    return capacity, true
  end
  return debt, false
end

-- Returns the text of a debt, or the number that becomes it.
local function gcra_text(debt, scale)
  return scale == 1 and now + debt or string.format('%d.%04d', now + math.floor(debt / scale), debt % scale)
end

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
    -- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
    local function scaled(a, b, c)
      if a * b <= 2 ^ 53 then
        return math.ceil(a * b / c)
      end
      -- Long division, four bits of b at a time, so that no product reaches 2^53.
      local quotient, rest = 0, 0
      for digit = 12, 0, -1 do
        rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
        quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
      end
      return rest > 0 and quotient + 1 or quotient
    end

    -- Windows: `past count`, or of a sliding counter `past count before`: when the window is past, the permits taken in it, and
    -- those of the window before, which fade. A counter's window is past a length after its end. A window that is reserved for
    -- later decides, in front of the present one, which decides again if all of that is refunded.

    -- Returns when a window ends that opens at a moment.
    local function window_end(kind, length, at)
      return at + length - (kind == 'aligned' and at % length or 0)
    end

    -- Returns when the window of a text ends, its permits, those of the window before, and the text of older ones; nil if the text
    -- is not a window.
    local function window_parse(kind, length, text)
      local fades = kind == 'counter'
      local past, count, before, older =
        string.match(text, fades and '^(%d+) (%d+) (%d+)(.*)$' or '^(%d+) (%d+)()(.*)$')
      if past and #past == 16 and #count < 16 and (not fades or #before < 16) then
        return past - (fades and length or 0), count + 0, fades and before + 0 or 0, older
      end
    end

    -- Returns the same of the window that a moment is in, or of one that is reserved for later; of an empty one if nothing counts
    -- any more.
    local function window_at(kind, length, at, ends, count, before)
      if kind == 'counter' and ends <= at then
        ends, count, before = ends + length, 0, count
      end
      if ends <= at or count + before == 0 then
        return window_end(kind, length, at), 0, 0
      end
      return ends, count, before
    end

    -- Returns the same of the newest window of a field, and whether the text is damaged, or the window too far ahead: then it is full.
    local function window_read(kind, permits, length, ahead, text)
      if not text then
        return now, 0, 0, '', false
      end
      local ends, count, before, older = window_parse(kind, length, text)
      if ends and ends <= now + ahead then
        return ends, count, before, older, false
      end
      -- The present aligned window may be about to end, so the next one is full, too.
      local full = window_end(kind, length, now) + (kind == 'aligned' and length or 0)
      return full, math.max(ends and count + before or 0, permits), 0, '', true
    end

    -- Returns the first moment from one on at which a cost fits.
    local function window_fits(kind, permits, length, cost, from, ends, count, before)
      local room = permits - cost
      if room < 0 then
        return math.huge
      elseif count > 0 and ends - length > from then
        from = ends - length
      end
      ends, count, before = window_at(kind, length, from, ends, count, before)
      local excess = count + before - room
      if count <= room then
        ends = ends - length + (excess > 0 and scaled(excess, length, before) or 0)
      elseif kind == 'counter' then
        -- In the next window, in which the permits of this one fade.
        ends = ends + scaled(count - room, length, count)
      end
      return math.max(ends, from)
    end

    -- Returns how long the permits last, how many are left, and the window that has those of the present.
    local function window_usage(kind, permits, length, ends, count, before)
      ends, count, before = window_at(kind, length, now, ends, count, before)
      local reset = count + before > 0 and ends - now + (kind == 'counter' and count > 0 and length or 0) or 0
      if ends - length > now then
        return reset, 0, ends, count, before
      elseif before > 0 then
        permits = permits - scaled(ends - now, before, length)
      end
      return reset, permits > count and permits - count or 0, ends, count, before
    end

    local function window_text(kind, length, ends, count, before)
      if kind == 'counter' then
        return string.format('%d %d %d', ends + length, count, before)
      end
      return string.format('%d %d', ends, count)
    end

    -- Returns all windows of a limit, the newest first.
    local function windows_of(limit)
      local windows = {}
      for text in string.gmatch(window_text(limit.kind, limit.number, limit.ends, limit.count, limit.before) .. limit.older, '%d[^,]*') do
        local ends, count, before = window_parse(limit.kind, limit.number, text)
        local past = ends and ends + (limit.kind == 'counter' and limit.number or 0)
        windows[#windows + 1] = ends and { ends = ends, past = past, count = count, before = before, text = text }
      end
      return windows
    end

    -- Charges a cost for a moment.
    local function windows_charge(limit, cost, at)
      local kind, length = limit.kind, limit.number
      local ends, count, before = window_at(kind, length, at, limit.ends, limit.count, limit.before)
      if ends ~= limit.ends then
        -- Windows that count at present follow the new one. A fifth goes, and the fourth is full from then on.
        local kept, newest = {}, limit.ends
        limit.ends, limit.count, limit.before = window_at(kind, length, now, limit.ends, limit.count, limit.before)
        limit.older = limit.ends == newest and limit.older or ''
        for _, window in ipairs(limit.count + limit.before > 0 and ends ~= limit.ends and windows_of(limit) or {}) do
          -- One whose permits all came back is past earlier.
          local past = window.count > 0 and window.past or window.before > 0 and window.ends or 0
          if past > now and #kept == 3 then
            kept[3] = string.gsub(kept[3], '(%d) %d+', '%1 200000000000000', 1)
          elseif past > now then
            kept[#kept + 1] = ', ' .. window.text
          end
        end
        limit.older = table.concat(kept)
      end
      limit.ends, limit.count, limit.before = ends, count + cost, before
    end

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
    -- Logs: element 0 of a list has the newest entry and the sum of all, `at count sum`; the elements behind it are the older
    -- entries, `at count`, the oldest first. Permits of one slot share an entry: at is when the last of them was taken. They count
    -- for a span from the start of the slot.

    local function log_end(limit, at)
      return at - at % limit.number + limit.span
    end

    -- Returns the n-th entry, and whether it is the newest, behind all others. One that is damaged ends with the newest. A chunk of
    -- the list is kept.
    local function log_entry(limit, n)
      local chunk = limit.chunk
      if n < chunk.first or n > chunk.last and n <= limit.last then
        chunk = redis.call('LRANGE', limit.key, n, n + 63)
        chunk.first, chunk.last = n, n + #chunk - 1
        limit.chunk, limit.last = chunk, #chunk < 64 and chunk.last or limit.last
      end
      local element = chunk[n - chunk.first + 1]
      if not element then
        return limit.at, limit.count, true
      end
      local at, count = string.match(element, '^(%d+) (%d+)$')
      if not at or #at ~= 16 or #count > 15 then
        return limit.at, 0, false
      end
      return math.min(at, limit.at), count + 0, false
    end

    -- Reads the log, and returns the error of that. One that is damaged or too far ahead is full.
    local function log_read(limit)
      local list = redis.pcall('LRANGE', limit.key, 0, 3)
      limit.at, limit.count, limit.sum = 0, 0, 0
      if list.err then
        return 'LRANGE: ' .. list.err
      end
      limit.past, limit.is_absent, limit.last = 0, not list[1], #list < 4 and #list - 1 or math.huge
      limit.chunk = { first = 1, last = #list - 1, unpack(list, 2) }
      if not list[1] then
        return nil
      end
      local at, count, sum = string.match(list[1], '^(%d+) (%d+) (%d+)$')
      limit.is_damaged = not at or #at ~= 16 or #sum > 15 or count + 0 > sum + 0 or at + 0 > now + limit.ahead
      if limit.is_damaged then
        -- A loose window counts the present slot for less than a whole window.
        limit.at = now + (limit.kind == 'loose' and -now % limit.number or 0)
        limit.count = math.max(sum and #sum <= 15 and sum + 0 or 0, limit.permits)
        limit.sum, limit.chunk, limit.last, limit.forgets_all = limit.count, { first = 1, last = 0 }, 0, true
        return nil
      end
      limit.at, limit.count, limit.sum = at + 0, count + 0, sum + 0
      if log_end(limit, limit.at) <= now then
        limit.count, limit.sum, limit.chunk, limit.last, limit.forgets_all = 0, 0, { first = 1, last = 0 }, 0, true
        return nil
      end
      local ended, permits = log_entry(limit, 1)
      while log_end(limit, ended) <= now do
        limit.past, limit.sum = limit.past + 1, math.max(limit.sum - permits, limit.count)
        ended, permits = log_entry(limit, limit.past + 1)
      end
    end

    -- Returns the first moment from one on at which a cost fits: not before the slot of the last reservation. Reads the entries
    -- that have to end, or those that may stay, whichever have fewer permits.
    local function log_fits(limit, cost, from)
      local room, sum, n = limit.permits - cost, limit.sum, limit.past
      from = math.max(from, limit.at - limit.at % limit.number)
      if room < 0 then
        return math.huge
      elseif sum - room > room then
        local stay, at, last, elements = limit.count, limit.at, 0, {}
        while stay <= room do
          if #elements == 0 then
            elements, last = redis.call('LRANGE', limit.key, last - 64, last - 1), last - 64
          end
          local element = table.remove(elements)
          local taken, count = string.match(element or '', '^(%d+) (%d+)$')
          at = taken and #taken == 16 and math.min(taken, at) or at
          stay = element and stay + (count and #count < 16 and count + 0 or 0) or math.huge
        end
        return math.max(from, log_end(limit, at))
      end
      while sum > room do
        n = n + 1
        local at, permits, is_newest = log_entry(limit, n)
        sum, from = is_newest and 0 or sum - permits, math.max(from, log_end(limit, at))
      end
      return from
    end

    -- Charges a cost for a moment, and returns the time of its entry.
    local function log_charge(limit, cost, at)
      if limit.count > 0 and limit.at - limit.at % limit.number >= at - at % limit.number then
        limit.at, limit.count = math.max(limit.at, at), limit.count + cost
      else
        limit.pushed = limit.count > 0 and string.format('%d %d', limit.at, limit.count)
        limit.at, limit.count = at, cost
      end
      limit.sum = limit.sum + cost
      return limit.at
    end

    -- Returns how long the permits last, and how many are left.
    local function log_usage(limit)
      local has_begun = limit.at - limit.at % limit.number <= now
      local reset = limit.count > 0 and log_end(limit, limit.at) - now or 0
      return reset, has_begun and math.max(limit.permits - limit.sum, 0) or 0
    end

    -- Writes the log, and returns the error of a command. A full memory refuses a script's first write alone.
    local function log_write(limit)
      local key, head = limit.key, string.format('%d %d %d', limit.at, limit.count, limit.sum)
      local ttl, lasts = redis.call('PTTL', key), math.ceil((log_end(limit, limit.at) - now) / 1000) + 1
      if limit.is_absent then
        local pushed = redis.pcall('RPUSH', key, head)
        if type(pushed) == 'table' then
          return 'RPUSH: ' .. pushed.err
        end
      else
        -- The last element that is past becomes element 0.
        local set = redis.pcall('LSET', key, limit.past, head)
        if set.err then
          return 'LSET: ' .. set.err
        end
        if limit.past > 0 or limit.forgets_all then
          redis.call('LTRIM', key, limit.past, limit.forgets_all and 0 or -1)
        end
        if limit.pushed then
          redis.call('RPUSH', key, limit.pushed)
        end
      end
      local expires = ttl < lasts and redis.pcall('PEXPIRE', key, lasts + math.ceil(limit.span / 1000))
      if type(expires) == 'table' and limit.is_absent then
        redis.call('LTRIM', key, 1, 0)
      end
      return type(expires) == 'table' and 'PEXPIRE: ' .. expires.err or nil
    end

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
