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

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < 1577836800000000 then
  return { err = "ERR the server's clock is before 2020: set it" }
end

-- Checks a key by limits of all kinds and states. Returns its reply.
local function check_other(key, text, limits, cost, within)
  if type(text) == 'table' then
    return 'GET: ' .. text.err
  end

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

  -- Gives a key that has lost its expiry a new one. Returns the error of the command that failed, if any.
  local function restore_expiry(key, micros)
    local command, ttl = 'PTTL', redis.pcall('PTTL', key)
    if ttl == -1 then
      command, ttl = 'PEXPIRE', redis.pcall('PEXPIRE', key, math.ceil(micros / 1000) + 1)
    end
    return type(ttl) == 'table' and command .. ': ' .. ttl.err or nil
  end

  -- Each returns the functions of a family: to read a state, when a cost fits from a moment on, to charge it then, what
  -- is left, and the state as text. A policy makes those of its own families only.
  local families = {}

  function families.gcra()
    -- Returns the debt of a state in ticks of the quota that wrote it; its increment, its ticks of a microsecond, and its
    -- text; and whether the state is damaged or from the future, and so a full debt. A debt drains at the pace of the quota
    -- that wrote it until another one charges.
    local function gcra_read(text, quota, burst, own_increment)
      local digits, decimals = string.gsub((text or '') .. ' ', '%.(%d%d%d%d) ', '%1 ')
      local tat, increment, reach = string.match(digits, '^(%d+) (%d+) (%d+) $')
      -- False if the text can't be read. All three numbers have decimals, or none.
      local debt, scale, writer = not text and 0, decimals > 0 and 10000 or 1, text and string.match(text, ' .*')
      increment, reach = tonumber(increment), tonumber(reach)
      if tat and decimals % 3 == 0 and #tat == (scale > 1 and 20 or 16) and increment > 0 and increment <= reach
        and increment <= 31622400000000 and reach <= math.min(400000000000000 * scale, 2 ^ 53) then
        debt = math.max((string.sub(tat, 1, 16) - now) * scale + (tonumber(string.sub(tat, 17)) or 0), 0)
      end
      local is_damaged = not debt or debt > 0 and debt > reach
      if debt and debt > 0 and writer ~= quota then
        return math.min(debt, reach), increment, scale, writer, is_damaged
      end
      scale = string.find(quota, '.', 1, true) and 10000 or 1
      return is_damaged and burst * own_increment or debt, own_increment, scale, quota, is_damaged
    end

    -- Returns a debt as the text of a state.
    local function gcra_text(debt, scale, quota)
      local fraction = scale > 1 and string.format('.%04d', debt % scale) or ''
      return string.format('%d', now + math.floor(debt / scale)) .. fraction .. quota
    end

    -- Returns a debt of one quota in the ticks of another: as many permits, rounded up to a tick.
    local function gcra_converted(debt, old_increment, increment)
      local rest = debt % old_increment
      return (debt - rest) / old_increment * increment + scaled(rest, increment, old_increment)
    end

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
    -- Returns when a window no longer counts. One without permits is reserved, and all of them came back.
    local function window_over(window, limit)
      if window.count + window.previous == 0 then
        return window.ends - window.length
      end
      return window.ends + (limit.kind == 'counter' and window.count > 0 and window.length or 0)
    end

    -- Returns the window that a moment is in, or a later one that is reserved. A fresh one is all zeros.
    local function window_at(window, limit, at)
      if limit.kind == 'counter' and window.ends <= at then
        window = { ends = window.ends + window.length, length = window.length, quota = window.quota, count = 0,
          previous = window.count }
      end
      return window_over(window, limit) > at and window or { ends = 0, length = 0, count = 0, previous = 0 }
    end

    -- Returns when a window ends that opens at a moment.
    local function window_end(limit, at, length)
      return at + length - (limit.kind == 'aligned' and at % length or 0)
    end

    -- Returns the window of a state. One that is damaged or from the future is full, by the length and the counts that it
    -- has, which may be larger than this quota's.
    local function window_read(text, limit)
      local ends, quota, length, reach, count, previous =
        string.match(text or '', '^(%d+)( (%d+) (%d+) )(%d+) ?(%d*)$')
      local is_readable = ends and #ends == 16 and (previous ~= '') == (limit.kind == 'counter')
      length, reach, count, previous = tonumber(length), tonumber(reach), tonumber(count), tonumber(previous) or 0
      if not text then
        ends, length, reach, count, previous = 0, 0, 0, 0, 0
      elseif not is_readable or length < 1000 or length > math.min(reach, 31622400000000) or reach > 189734400000000
        or math.max(count, previous) > 158112000000000 then
        ends, quota, length, count, previous = math.huge, limit.quota, limit.number, 0, 0
        reach = string.match(quota, '(%d+) $') + 0
      end
      local window = { ends = ends + 0, quota = quota, length = length, count = count, previous = previous }
      if window.ends > now + reach then
        -- The present aligned window may be about to end, so the next one is full too.
        window.ends = window_end(limit, now, length) + (limit.kind == 'aligned' and length or 0)
        window.quota = string.format(' %d %d ', length, math.max(reach, window.ends - now))
        window.count, window.previous, window.is_damaged = math.max(count + previous, limit.most), 0, true
      end
      window = window_at(window, limit, now)
      -- An aligned window may be open already when one of another length ends, so nothing is reserved behind that.
      window.is_foreign = limit.kind == 'aligned' and window.ends > 0 and window.length ~= limit.number
      return window
    end

    -- Returns the state of a window, and for how long it matters.
    local function window_text(window, limit)
      local text = string.format('%d%s%d', window.ends, window.quota or '', window.count)
      local lasts = window_over(window, limit) - now
      return limit.kind == 'counter' and string.format('%s %d', text, window.previous) or text, lasts
    end

    -- Returns how many permits count at a moment: those of the window before fade.
    local function window_counted(window, at)
      local left = math.min(window.ends - at, window.length)
      return window.count + (window.previous > 0 and scaled(left, window.previous, window.length) or 0)
    end

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
    -- A log has its newest entry as numbers: when the last permit was taken, the permits, and the total up to it; and in
    -- `older` the `length` older entries, from the oldest on. Those of the list at `key` are read as needed.

    -- Returns the n-th of the older entries, and behind them the newest, which is the log. A damaged entry has the permits
    -- of the whole log, and the time of the newest entry.
    local function log_entry(log, n)
      if n > log.length then
        return log
      end
      log.older[n] = log.older[n] or redis.call('LINDEX', log.key, n)
      if type(log.older[n]) == 'string' then
        local at, count, total = string.match(log.older[n], '^(%d+) (%d+) (%d+)$')
        if not at or #at ~= 16 or at + 0 > log.at or count + 0 > total + 0 or total + 0 > log.total - log.count then
          at, count, total = log.at, log.total, log.total
        end
        log.older[n] = { at = at + 0, count = count + 0, total = total + 0 }
      end
      return log.older[n]
    end

    -- Returns the first entry from the n-th on that `is_found`, else the newest, and its number.
    local function log_find(log, n, is_found)
      local low, high = n, log.length + 1
      while low < high do
        local middle = math.floor((low + high) / 2)
        if is_found(log_entry(log, middle)) then
          high = middle
        else
          low = middle + 1
        end
      end
      return log_entry(log, low), low
    end

    -- Returns until when permits count that were taken at a moment: by a quota, and by those that wrote the log.
    local function log_end(log, limit, at)
      return math.min(at - at % limit.slot + limit.span, at - at % log.slot + log.span)
    end

    -- Returns a log without permits, in the place of all entries.
    local function log_fresh(limit)
      return { at = 0, count = 0, total = 0, slot = limit.slot, span = limit.span, horizon = 0, older = {}, length = 0,
        dropped = -1 }
    end

    -- Returns the log of a list or of a text, of which the `dropped` oldest entries have ended, or all if this is -1. A log
    -- that is damaged or from the future is full, for the longest span and with the most permits of it and of this quota.
    local function log_read(first, older, limit, key)
      local slot, span, horizon = string.match(limit.quota, '(%d+) (%d+) (%d+)')
      limit.slot, limit.span, limit.horizon = slot + 0, span + 0, horizon + 0
      if not first then
        return log_fresh(limit)
      end
      local at, count, total, slot, span, horizon = string.match(first, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
      local log = { at = tonumber(at), count = tonumber(count), total = tonumber(total), slot = tonumber(slot),
        span = tonumber(span), horizon = tonumber(horizon), older = older, key = key,
        length = key and redis.call('LLEN', key) - 1 or #older }
      local is_readable = at and #at == 16 and #total <= 16 and log.count <= log.total and log.slot > 0
        and log.slot <= log.span and log.span <= 64000000000000 and log.horizon <= 158112000000000
      if not is_readable or log.at > now + math.max(log.horizon, log.slot) then
        local full, old = log_fresh(limit), is_readable and log or limit
        local oldest = is_readable and log_entry(log, 1)
        -- A loose window counts the present slot for less than a whole window.
        full.at = now + (limit.kind == 'loose' and -now % limit.slot or 0)
        full.count = math.max(oldest and log.total - oldest.total + oldest.count or 0, limit.most)
        full.slot = old.slot == limit.slot and old.span == limit.span and limit.slot or 1
        full.span, full.horizon = math.max(limit.span, old.span), math.max(limit.horizon, old.horizon, full.at - now)
        full.total, full.is_damaged = full.count, true
        return full
      elseif log_end(log, log, log.at) <= now then
        return log_fresh(limit)
      end
      local _, oldest = log_find(log, 1, function(entry) return log_end(log, log, entry.at) > now end)
      log.dropped = oldest - 1
      return log
    end

    -- Returns the first element of a log.
    local function log_head(log)
      return string.format('%d %d %d %d %d %d', log.at, log.count, log.total, log.slot, log.span, log.horizon)
    end

    -- Returns an older entry as an element.
    local function log_element(entry)
      return type(entry) == 'table' and string.format('%d %d %d', entry.at, entry.count, entry.total) or entry
    end

    -- Returns the log of a text, whose elements are joined by semicolons.
    local function log_parse(text, limit)
      local older = {}
      for element in string.gmatch(text or '', '[^;]+') do
        older[#older + 1] = element
      end
      local is_whole = text and text ~= '' and table.concat(older, ';') == text
      return log_read(is_whole and table.remove(older, 1) or text and '', older, limit)
    end

    -- Returns a log as text, and for how long it matters.
    local function log_text(log)
      local elements = { log_head(log) }
      for n = math.max(log.dropped, 0) + 1, log.length do
        elements[#elements + 1] = log_element(log.older[n])
      end
      elements[#elements + 1] = log.pushed
      return table.concat(elements, ';'), log.count > 0 and log_end(log, log, log.at) - now or 0
    end

    -- Returns how many permits count after a moment that were taken at `since` or later, and the number of their first entry.
    local function log_counted(log, limit, since, moment)
      local function counts(entry)
        return entry.at >= since and log_end(log, limit, entry.at) > moment
      end
      local first, n = log_find(log, 1, counts)
      return counts(first) and log.total - first.total + first.count or 0, n
    end

    -- Returns the first moment from `from` on at which at most `room` of the permits count that were taken at `since` or later.
    local function log_room(log, limit, since, room, from)
      local counted, n = log_counted(log, limit, since, from)
      if counted <= room then
        return from
      end
      local last = log_find(log, n, function(entry) return entry.total >= log.total - room end)
      return math.max(from, log_end(log, limit, last.at))
    end

    -- Returns how many permits a paced window admits in a slot with this number.
    local function log_ceiling(limit, number)
      local even, rest, within = math.floor(limit.most / limit.number), limit.most % limit.number, number % limit.number
      return even + math.floor(rest * (within + 1) / limit.number) - math.floor(rest * within / limit.number)
    end

    -- Returns from which moment on, `from` or later, a cost fits: math.huge for never.
    local function log_fits(log, limit, cost, from)
      local even, rest = math.floor(limit.most / math.max(limit.number, 1)), limit.most % math.max(limit.number, 1)
      if cost > even + (rest > 0 and 1 or 0) then
        return math.huge
      end
      -- Not before the slot of the last reservation.
      local fits = math.max(log_room(log, limit, 0, limit.most - cost, from), log.at - log.at % limit.slot)
      if limit.number > 0 then
        local number = math.floor(fits / limit.slot)
        local room = log_ceiling(limit, number) - cost
        fits = room < 0 and math.huge or log_room(log, limit, number * limit.slot, room, fits)
        if fits >= (number + 1) * limit.slot then
          number = number + 1
          if cost > even then
            -- `rest` of every `limit.number` slots admit one permit more, spread evenly. This is the next of them.
            local within = number % limit.number
            number = number - within + math.ceil((math.floor(within * rest / limit.number) + 1) * limit.number / rest) - 1
          end
          fits = number * limit.slot
        end
      end
      return fits
    end

    -- Returns how many permits are left now, if no later slot is in use.
    local function log_left(log, limit)
      local left, number = limit.most - log_counted(log, limit, 0, now), math.floor(now / limit.slot)
      if limit.number > 0 then
        left = math.min(left, log_ceiling(limit, number) - log_counted(log, limit, number * limit.slot, now))
      end
      return left
    end

    -- Charges a cost at a moment at which it fits. If that begins an entry, the newest one before becomes the last of the
    -- older ones, whose element is `pushed`. Returns the log, and the mark of the charge, which is the time until the entry.
    local function log_charge(log, limit, cost, at)
      log.left = log_left(log, limit) - cost
      -- Slots of two lengths share no grid.
      log.slot = log.slot == limit.slot and log.span == limit.span and limit.slot or 1
      log.span, log.horizon = math.max(log.span, limit.span), math.max(log.horizon, limit.horizon)
      if log.at > 0 and log.at - log.at % limit.slot < at - at % limit.slot then
        log.pushed, log.count = log_element({ at = log.at, count = log.count, total = log.total }), 0
      end
      log.at, log.count, log.total = math.max(log.at, at), log.count + cost, log.total + cost
      return log, log.at - now
    end

    -- Returns the time until nothing counts, and the permits that remain.
    local function log_usage(log, limit)
      local left = log.left or log_left(log, limit)
      local has_begun = log.at - log.at % limit.slot <= now
      return math.max(log_end(log, limit, log.at) - now, 0), has_begun and math.max(left, 0) or 0
    end

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
