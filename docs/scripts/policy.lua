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
  -- Returns a * b / c rounded up, exactly, for whole numbers below 2^48 with a at most c.
  local function scaled(a, b, c)
    if a * b <= 2 ^ 53 then
      return math.ceil(a * b / c)
    end
    -- Long division, four bits of b at a time, so that no product reaches 2^53.
    local quotient, rest = 0, 0
    for digit = 11, 0, -1 do
      rest = rest * 16 + a * (math.floor(b / 16 ^ digit) % 16)
      quotient, rest = quotient * 16 + math.floor(rest / c), rest % c
    end
    return rest > 0 and quotient + 1 or quotient
  end

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
    -- GCRA: a debt in ticks of the quota that wrote it, which drains at that quota's pace until another one charges.

    -- Reads a debt. One that is damaged or from the future is full.
    local function gcra_read(limit)
      local digits, decimals = string.gsub((limit.text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
      local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
      local scale, debt = decimals > 0 and 10000 or 1, not limit.text and 0 or nil
      increment, reach = tonumber(increment), tonumber(reach)
      limit.own_scale = string.find(limit.quota, '.', 1, true) and 10000 or 1
      -- All three numbers have decimals, or none.
      if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
        and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
        debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
      end
      limit.is_damaged = not debt or debt > 0 and debt > reach
      if debt and debt > 0 and string.match(limit.text, ' .*') ~= limit.quota then
        limit.debt, limit.increment, limit.scale = math.min(debt, reach), increment, scale
        limit.writer, limit.is_foreign = string.match(limit.text, ' .*'), true
      else
        limit.debt = limit.is_damaged and limit.permits * limit.number or debt
        limit.increment, limit.scale, limit.writer = limit.number, limit.own_scale, limit.quota
      end
    end

    -- Returns the state as text, and for how long it matters.
    local function gcra_text(limit)
      local debt, scale = limit.debt, limit.scale
      local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
      return string.format('%d', now + math.floor(debt / scale)) .. fraction .. limit.writer, math.ceil(debt / scale)
    end

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
    -- Windows: the permits taken in one window for each length that has charged the key, up to four. A charge counts in each
    -- of them, and a quota decides by the one of its own length. A window that is reserved follows the present one, which a
    -- refund of all that is reserved brings back.

    -- Returns when a window ends that opens at a moment.
    local function window_end(limit, at, length)
      return at + length - (limit.kind == 'aligned' and at % length or 0)
    end

    -- Returns a window as text. Numbers that follow from the others are left out.
    local function window_element(limit, window)
      local text = string.format('%d %d %d %d', window.since, window.length, window.reach, window.count)
      if limit.kind == 'counter' then
        text = string.format('%s %d', text, window.previous)
      end
      if window.shortest == window.length and window.ends == window_end(limit, window.since, window.length) then
        return text
      end
      return string.format('%s %d %d', text, window.shortest, window.ends)
    end

    -- Returns the window of a text, nil if no quota can have left it.
    local function window_parse(limit, text)
      local numbers = {}
      for number in string.gmatch(text, '%d+') do
        numbers[#numbers + 1] = number + 0
      end
      if limit.kind ~= 'counter' then
        table.insert(numbers, math.min(5, #numbers + 1), 0)
      end
      local since, length, reach, count, previous, shortest, ends = unpack(numbers, 1, 7)
      if not previous or since < 1e15 or since >= 1e16 or length < 1000 or length > math.min(reach, 31622400000000)
        or reach > 189734400000000 or math.max(count, previous) > 158112000000000 then
        return nil
      end
      local window = { since = since, length = length, reach = reach, count = count, previous = previous,
        shortest = shortest or length, ends = ends or window_end(limit, since, length) }
      return window_element(limit, window) == text and window or nil
    end

    -- Returns when a window no longer counts. One without permits is reserved, and all of them came back.
    local function window_over(limit, window)
      if window.count + window.previous == 0 then
        return window.ends - window.length
      end
      return window.ends + (limit.kind == 'counter' and window.count > 0 and window.length or 0)
    end

    -- Returns the window that a moment is in, or that begins later; nil if it no longer counts.
    local function window_at(limit, window, at)
      if limit.kind == 'counter' and window.ends <= at then
        window = { since = window.ends, length = window.length, reach = window.reach, count = 0, previous = window.count,
          shortest = window.shortest, ends = window.ends + window.length }
      end
      return window_over(limit, window) > at and window or nil
    end

    -- Returns a list of windows without those that another window of the same length makes needless.
    local function window_drop(windows, is_needless)
      local kept = {}
      for _, window in ipairs(windows) do
        local drops = false
        for _, other in ipairs(windows) do
          drops = drops or other.length == window.length and is_needless(window, other)
        end
        kept[#kept + 1] = not drops and window or nil
      end
      return kept
    end

    -- Returns a list of windows without those that have ended at a moment, and behind which a reserved one has begun.
    local function window_successors(windows, at)
      return window_drop(windows, function(window, other)
        return window.ends <= at and other.ends == window.ends + window.length
      end)
    end

    -- Returns the windows as text, and for how long they matter.
    local function window_text(limit)
      local texts, lasts = {}, 0
      for n, window in ipairs(limit.windows) do
        texts[n] = window_element(limit, window)
        local present = window_at(limit, window, now)
        lasts = math.max(lasts, present and window_over(limit, present) - now or 0)
      end
      return table.concat(texts, ', '), lasts
    end

    -- Reads the windows. One that is damaged or from the future is full.
    local function read(limit)
      limit.length, limit.reach = string.match(limit.quota, '(%d+) (%d+)')
      limit.length, limit.reach, limit.windows, limit.is_damaged = limit.length + 0, limit.reach + 0, {}, false
      for element in string.gmatch(limit.text and limit.text .. ', ' or '', '(.-), ') do
        limit.windows[#limit.windows + 1] = window_parse(limit, element) or {}
      end
      for _, window in ipairs(limit.windows) do
        if not window.length or #limit.windows > 4 then
          limit.windows = { { length = limit.length, shortest = limit.length, reach = limit.reach, count = 1, previous = 0,
            ends = math.huge } }
        end
      end
      for _, window in ipairs(limit.windows) do
        limit.is_damaged = limit.is_damaged or window.ends > now + window.reach
      end
      if limit.is_damaged then
        limit.windows = window_drop(limit.windows, function(window, other) return other.ends > window.ends end)
      end
      for _, window in ipairs(limit.windows) do
        if window.ends > now + window.reach then
          -- The present aligned window may be about to end, so the next one is full too.
          window.since, window.ends = now, window_end(limit, now, window.length)
          window.ends = window.ends + (limit.kind == 'aligned' and window.length or 0)
          window.reach = math.max(window.reach, window.ends - now)
          window.count, window.previous = math.max(window.count + window.previous, limit.permits), 0
        end
        local present = window_at(limit, window, now)
        -- Behind windows of other lengths nothing is promised: one of them may admit something earlier.
        limit.is_foreign = limit.is_foreign or present and present.length ~= limit.length
      end
    end

    -- Returns whether the quota decides by a window.
    local function is_own(limit, window)
      return window.shortest <= limit.length and limit.length <= window.length
    end

    -- Returns the window by which the quota decides at a moment, the last that is reserved; nil if none is open.
    local function own_at(limit, at)
      local own
      for _, window in ipairs(window_successors(limit.windows, at)) do
        window = is_own(limit, window) and window_at(limit, window, at)
        own = window and (not own or window.ends > own.ends) and window or own
      end
      return own
    end

    -- Returns the fullest of the windows that began within the length of the quota, from which a window takes its permits
    -- that opens at a moment; and when the last of those with more than `room` permits has ended or is older.
    local function source_at(limit, at, room)
      local fullest, over = { since = at, count = 0 }, at
      for _, window in ipairs(window_successors(limit.windows, at)) do
        window = window_at(limit, window, at)
        if window and window.count > 0 and window.since + limit.length > at then
          if window.count > fullest.count or window.count == fullest.count and window.since > fullest.since then
            fullest = window
          end
          if window.count > room then
            over = math.max(over, math.min(window.ends, window.since + limit.length))
          end
        end
      end
      return fullest, over
    end

    -- Returns how many permits count at a moment: those of the window before fade.
    local function counted(window, at)
      local left = math.min(window.ends - at, window.length)
      return window.count + (window.previous > 0 and scaled(left, window.previous, window.length) or 0)
    end

    -- Returns when the last window begins, if that is later than a moment. Nothing is charged before what is reserved.
    local function begun(limit, at)
      for _, window in ipairs(limit.windows) do
        at = math.max(at, window.ends - window.length)
      end
      return at
    end

    local function fits(limit, from)
      local room = limit.permits - limit.cost
      from = begun(limit, from)
      local own = own_at(limit, from)
      if room < 0 then
        return math.huge
      elseif own then
        local at = own.ends
        if own.count > room and limit.kind == 'counter' then
          -- In the next window, in which the permits of this one fade.
          at = at + scaled(own.count - room, own.length, own.count)
        elseif own.count <= room then
          local excess = own.count + own.previous - room
          at = at - own.length + (excess > 0 and scaled(excess, own.length, own.previous) or 0)
        end
        if math.max(at, from) < window_over(limit, own) then
          return math.max(at, from)
        end
        from = window_over(limit, own)
      end
      local _, over = source_at(limit, from, room)
      return over
    end

    -- Adds a window that opens. A fifth drops the first of its length. If there is none, it counts in the next longer
    -- window, or the longest one becomes as long.
    local function add(limit, window)
      local sorted = { unpack(limit.windows) }
      for n, other in ipairs(#sorted < 4 and {} or sorted) do
        if other.length == window.length then
          table.remove(limit.windows, n)
          break
        end
      end
      if #limit.windows < 4 then
        table.insert(limit.windows, window)
        return
      end
      table.sort(sorted, function(one, other) return one.length < other.length end)
      for _, other in ipairs(sorted) do
        if other.length > window.length then
          other.shortest = window.length
          return
        end
      end
      window.shortest = sorted[4].shortest
      for name, value in pairs(window) do
        sorted[4][name] = value
      end
    end

    local function charge(limit, at)
      local windows, own, is_stored = window_successors(limit.windows, now), own_at(limit, at), false
      if not own then
        local source = source_at(limit, at, 0)
        local ends = window_end(limit, limit.kind == 'aligned' and at or source.since, limit.length)
        own = { since = source.since, length = limit.length, reach = 0, count = source.count, previous = 0,
          shortest = limit.length, ends = ends }
      end
      limit.windows = {}
      for _, window in ipairs(windows) do
        window = window_at(limit, window, now) or window
        -- The present window stays as it is until the one begins that is reserved.
        local is_before = now < window.ends and window.ends <= at
        window = is_before and window or window_at(limit, window, at)
        limit.windows[#limit.windows + 1] = window
        if window and not is_before then
          window.count = window.count + limit.cost
          is_stored = is_stored or is_own(limit, window) and window.ends == own.ends
        end
      end
      if not is_stored then
        own.count = own.count + limit.cost
        add(limit, own)
      end
      own = own_at(limit, at)
      own.reach = math.max(own.reach, limit.reach)
      return own.ends - now
    end

    local function usage(limit)
      local from = begun(limit, now)
      local own = own_at(limit, from)
      local source, over = source_at(limit, own and window_over(limit, own) or from, 0)
      local left = limit.permits - (own and counted(own, from) or source.count)
      return over - now, from <= now and math.max(left, 0) or 0
    end

    -- Any number until more than the permits count. A count stays far below the largest one that is read.
    local function most(limit)
      local own, fullest = own_at(limit, now), 0
      for _, window in ipairs(window_successors(limit.windows, now)) do
        window = window_at(limit, window, now)
        fullest = math.max(fullest, window and window.count or 0)
      end
      local room = limit.permits - (own and counted(own, now) or source_at(limit, now, 0).count)
      return begun(limit, now) <= now and room >= 0 and math.max(room, 1e14 - fullest) or 0
    end

    return { read = read, fits = fits, most = most, charge = charge, usage = usage, write = write_text(window_text) }
  end

  function families.log()
    -- Logs: the newest entry, and the older ones of the list, which are read as needed. The quotas of different spans that
    -- have charged the key are its writers, up to four.

    -- Returns when permits that were taken at a moment do not count any more: for each of the writers.
    local function log_over(log, at)
      local over = 0
      for _, writer in ipairs(log.writers) do
        local last = math.min(at, writer.newest)
        over = math.max(over, last - last % writer.slot + writer.span)
      end
      return over
    end

    -- Returns when an entry does not count any more for a quota.
    local function log_end(limit, entry)
      return math.min(entry.at - entry.at % limit.slot + limit.span, log_over(limit.log, entry.at))
    end

    -- Returns the n-th of the older entries, and behind them the newest. A damaged one ends with the newest, and frees nothing.
    local function log_entry(log, n)
      if n > log.length then
        return log.newest
      end
      if not log.older[n] then
        local first = n - (n - 1) % 64
        for place, element in ipairs(redis.call('LRANGE', log.key, first, first + 63)) do
          local at, count = string.match(element, '^(%d+) (%d+)$')
          log.older[first + place - 1] = { at = at and #at == 16 and math.min(at, log.newest.at) or log.newest.at,
            count = at and #at == 16 and count + 0 or 0 }
        end
      end
      return log.older[n]
    end

    -- Returns element 0. The only writer has charged the newest entry.
    local function log_head(log)
      local text = string.format('%d %d %d %d', log.newest.at, log.newest.count, log.total, log.largest)
      for _, writer in ipairs(log.writers) do
        if #log.writers == 1 then
          return string.format('%s %d %d %d', text, writer.slot, writer.span, writer.horizon)
        end
        text = string.format('%s, %d %d %d %d', text, writer.slot, writer.span, writer.horizon, writer.newest)
      end
      return text
    end

    -- Returns the log of element 0, nil if no quota can have left it.
    local function log_parse(head)
      local numbers, log = {}, { writers = {} }
      for number in string.gmatch(head, '%d+') do
        numbers[#numbers + 1] = number + 0
      end
      log.newest, log.total, log.largest = { at = numbers[1], count = numbers[2] }, numbers[3], numbers[4]
      for n = 5, #numbers, 4 do
        local slot, span, horizon, newest = numbers[n], numbers[n + 1], numbers[n + 2], numbers[n + 3] or numbers[1]
        if slot == 0 or not horizon or slot > span or span > 64000000000000 or horizon > 158112000000000 then
          return nil
        end
        log.writers[#log.writers + 1] = { slot = slot, span = span, horizon = horizon, newest = newest }
      end
      local is_valid = numbers[7] and numbers[1] >= 1e15 and numbers[1] < 1e16 and #log.writers <= 4 and numbers[2] <= numbers[3]
        and math.max(numbers[3], numbers[4]) <= 2 ^ 53
      return is_valid and log_head(log) == head and log or nil
    end

    -- Returns the log of a list with this element 0, of which the `dropped` oldest elements behind it have ended; nil if it is
    -- damaged or from the future.
    local function log_open(key, head)
      local log, reach = log_parse(head), 0
      for _, writer in ipairs(log and log.writers or {}) do
        reach = math.max(reach, writer.horizon, writer.slot)
      end
      if not log or log.newest.at > now + reach then
        return nil, log
      end
      log.key, log.older, log.length = key, {}, redis.call('LLEN', key) - 1
      -- How many have ended is found by doubling a step, and then by bisection.
      local low, step = 0, 1
      while low + step <= log.length and log_over(log, log_entry(log, low + step).at) <= now do
        low, step = low + step, step * 2
      end
      while step > 1 do
        step = step / 2
        if low + step <= log.length and log_over(log, log_entry(log, low + step).at) <= now then
          low = low + step
        end
      end
      log.dropped = low
      -- Those that have ended are subtracted, or the others added up, whichever are fewer.
      if low * 2 < log.length then
        for n = 1, low do
          log.total = math.max(log.total - log_entry(log, n).count, log.newest.count)
        end
        return log
      end
      log.total = log.newest.count
      for n = low + 1, log.length do
        log.total = log.total + log_entry(log, n).count
      end
      return log
    end

    -- Adds a quota to the writers. One of the same slots joins it, and a fifth one the last.
    local function add_writer(log, writer)
      for n, other in ipairs(log.writers) do
        local is_same = other.slot == writer.slot and other.span == writer.span
        if is_same or n == 4 then
          -- Slots of two lengths share no grid.
          log.writers[n] = { slot = is_same and other.slot or 1, span = math.max(other.span, writer.span),
            horizon = math.max(other.horizon, writer.horizon), newest = math.max(other.newest, writer.newest) }
          return
        end
      end
      log.writers[#log.writers + 1] = writer
    end

    -- Reads the log. One that is damaged or from the future is full, for the longest span.
    local function read(limit)
      local slot, span, horizon = string.match(limit.quota, '(%d+) (%d+) (%d+)')
      limit.slot, limit.span, limit.horizon = slot + 0, span + 0, horizon + 0
      local log, damaged
      if limit.text then
        log, damaged = log_open(limit.key, limit.text)
      end
      if limit.text and not log then
        local length = redis.call('LLEN', limit.key) - 1
        log = { key = limit.key, writers = damaged and damaged.writers or {}, older = {}, length = length, dropped = length }
        -- A loose window counts the present slot for less than a whole window.
        local at = now + (limit.kind == 'loose' and -now % limit.slot or 0)
        for _, writer in ipairs(log.writers) do
          writer.newest = at
        end
        add_writer(log, { slot = limit.slot, span = limit.span, horizon = math.max(limit.horizon, at - now), newest = at })
        log.newest = { at = at, count = math.max(damaged and damaged.total or 0, limit.permits) }
        log.total, log.largest, limit.is_damaged = log.newest.count, 0, true
      end
      log = log or { key = limit.key, older = {}, length = 0, dropped = 0, is_absent = true, newest = { at = 0 }, writers = {} }
      for n = #log.writers, 1, -1 do
        local writer = log.writers[n]
        if #log.writers > 1 and writer.newest - writer.newest % writer.slot + writer.span <= now then
          table.remove(log.writers, n)
        end
      end
      if log_over(log, log.newest.at) <= now then
        log.newest, log.total, log.largest, log.writers = { at = 0, count = 0 }, 0, 0, {}
      end
      limit.log, limit.counts_all = log, true
      for _, writer in ipairs(log.writers) do
        local is_own = writer.slot == limit.slot and writer.span == limit.span
        limit.counts_all = limit.counts_all and (is_own or limit.slot == 1 and writer.span <= limit.span)
      end
    end

    -- Returns how many permits count after a moment that were taken at `since` or later; if there are more than `most`, not
    -- all of them, and the end of the entry with which they are more.
    local function counted(limit, from, since, most)
      local log, sum = limit.log, 0
      if since == 0 and limit.counts_all and log.total <= most then
        return log.total, from
      end
      for n = log.length + 1, log.dropped + 1, -1 do
        local entry = log_entry(log, n)
        local ends = log_end(limit, entry)
        if entry.at < since or ends <= from then
          break
        end
        sum = sum + entry.count
        if sum > most then
          return sum, ends
        end
      end
      return sum, from
    end

    -- Returns the first moment from `from` on at which at most `room` of the permits count.
    local function fits_within(limit, room, from)
      local log, sum, n = limit.log, limit.log.total, limit.log.dropped
      if sum - room > room then
        return select(2, counted(limit, from, 0, room))
      end
      -- Fewer permits have to end than may stay.
      while sum > room and n <= log.length do
        n = n + 1
        sum, from = sum - log_entry(log, n).count, math.max(from, log_end(limit, log_entry(log, n)))
      end
      return from
    end

    -- Returns how many permits a paced window admits in a slot with this number.
    local function ceiling(limit, number)
      local even, rest, within = math.floor(limit.permits / limit.number), limit.permits % limit.number, number % limit.number
      return even + math.floor(rest * (within + 1) / limit.number) - math.floor(rest * within / limit.number)
    end

    local function fits(limit, from)
      local slots, cost, newest = math.max(limit.number, 1), limit.cost, limit.log.newest.at
      local even, rest = math.floor(limit.permits / slots), limit.permits % slots
      if cost > even + (rest > 0 and 1 or 0) then
        return math.huge
      end
      -- Not before the slot of the last reservation.
      local at = fits_within(limit, limit.permits - cost, math.max(from, newest - newest % limit.slot))
      if limit.number > 0 then
        local number, ends = math.floor(at / limit.slot), math.huge
        if ceiling(limit, number) >= cost then
          ends = select(2, counted(limit, at, number * limit.slot, ceiling(limit, number) - cost))
        end
        if ends < (number + 1) * limit.slot then
          return ends
        end
        number = number + 1
        if cost > even then
          -- `rest` of every `slots` slots admit one permit more, spread evenly. This is the next of them.
          local within = number % slots
          number = number - within + math.ceil((math.floor(within * rest / slots) + 1) * slots / rest) - 1
        end
        at = number * limit.slot
      end
      return at
    end

    -- Charges in the newest entry if both are in one slot of all writers, or begins another one. Of a log that several quotas
    -- have charged, the oldest permits are dropped that none of them has to find. Reserved ones may come back, and so do not
    -- stand for others.
    local function charge(limit, at)
      local log, newest = limit.log, limit.log.newest
      log.largest = math.max(log.largest, limit.permits)
      if #log.writers > 1 then
        local past = log.total
        for n = log.length + 1, log.dropped + 1, -1 do
          local entry = log_entry(log, n)
          past = entry.at > now and past - entry.count or past
          if entry.at <= now then
            break
          end
        end
        while log.dropped < log.length and log_entry(log, log.dropped + 1).at <= now
          and past - log_entry(log, log.dropped + 1).count >= log.largest do
          log.dropped = log.dropped + 1
          past, log.total = past - log_entry(log, log.dropped).count, log.total - log_entry(log, log.dropped).count
        end
      end
      add_writer(log, { slot = limit.slot, span = limit.span, horizon = limit.horizon, newest = at })
      for _, writer in ipairs(log.writers) do
        if newest.at - newest.at % writer.slot < at - at % writer.slot then
          log.pushed, log.newest = newest.at > 0 and newest or nil, { at = at, count = 0 }
        end
      end
      if log.pushed then
        log.length = log.length + 1
        log.older[log.length] = log.pushed
      end
      log.newest = { at = math.max(log.newest.at, at), count = log.newest.count + limit.cost }
      log.total = log.total + limit.cost
      return log.newest.at - now
    end

    local function usage(limit)
      local newest, number = limit.log.newest.at, math.floor(now / limit.slot)
      local left = limit.permits - counted(limit, now, 0, limit.permits)
      if limit.number > 0 then
        left = math.min(left, ceiling(limit, number) - counted(limit, now, number * limit.slot, limit.permits))
      end
      local has_begun = newest - newest % limit.slot <= now
      return math.max(log_end(limit, limit.log.newest) - now, 0), has_begun and math.max(left, 0) or 0
    end

    -- Writes the log, first what a full memory refuses. Returns the error of the first write.
    local function write(limit)
      local log = limit.log
      local expiry = math.ceil((log_over(log, log.newest.at) - now) / 1000) + 1
      if log.is_absent then
        local pushed = redis.pcall('RPUSH', log.key, log_head(log))
        local expires = type(pushed) == 'number' and redis.pcall('PEXPIRE', log.key, expiry)
        -- No key stays without an expiry.
        if type(expires) == 'table' then
          redis.call('LTRIM', log.key, 1, 0)
          return 'PEXPIRE: ' .. expires.err
        end
        return type(pushed) == 'table' and 'RPUSH: ' .. pushed.err or nil
      end
      -- The last element that has ended becomes element 0.
      local set = redis.pcall('LSET', log.key, log.dropped, log_head(log))
      if set.err then
        return 'LSET: ' .. set.err
      end
      if log.pushed then
        redis.call('RPUSH', log.key, string.format('%d %d', log.pushed.at, log.pushed.count))
      end
      if log.dropped > 0 then
        redis.call('LTRIM', log.key, log.dropped, -1)
      end
      redis.call('PEXPIRE', log.key, expiry)
    end

    -- Any number until more than the permits count. A total stays far below the largest one that is read.
    local function most(limit)
      local newest, room = limit.log.newest.at, limit.permits - counted(limit, now, 0, limit.permits)
      local has_begun = newest - newest % limit.slot <= now
      return has_begun and room >= 0 and math.max(room, 1e14 - limit.log.total) or 0
    end

    return { read = read, fits = fits, most = most, charge = charge, usage = usage, write = write }
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
