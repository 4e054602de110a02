-- The short way of a check by dated entries in a list. It keeps the ends of the list in its head, so
-- that most checks read and write one element. What is not ordinary goes the long way, which follows:
-- a fresh subject, permits promised for later, notes, foreign or corrupt values.
--
-- KEYS[1]  as in list.lua, where the head that is written here is described too
-- ARGV     as in take.lua, without `within` and the quota, which is in the text
-- Reply    the numbers, as of the long way
-- Cost     TIME and one read; one write if it admits; two more for each fifth entry that is added, and
--          for each fourth that is over
do
  local key = KEYS[1]
  local head, from_text = call('LINDEX', key, 0), false
  local total, expires, at, count, oldest_at, oldest_count
  local border = 0
  local young, old = '', ''
  if head and #head >= 57 and string.byte(head) == 42 then
    total, expires, border, at, count, oldest_at, oldest_count = struct.unpack('>ddddddd', head, 2)
    young, old = string.sub(head, 58, 57 + border), string.sub(head, 58 + border)
  elseif head then
    local length, tail
    total, length, tail, expires = match(head, '^(%d+):(%d+):(%d+):(%d+)$')
    if total and length + 0 >= 2 and call('LLEN', key) == length + 1 then
      from_text, total, expires = true, total + 0, expires + 0
      at, count = match(call('LINDEX', key, 1) or '', '^(%d+)(%d%d%d%d)$')
      oldest_at, oldest_count = match(call('LINDEX', key, -1), '^(%d+)(%d%d%d%d)$')
      at, count = at and at + 0, count and count + 0
      -- What the head tells of the oldest is what counts.
      oldest_at, oldest_count = oldest_at == tail and oldest_at + 0, oldest_count and oldest_count + 0
    end
  end

  local begun = at and oldest_at and at - (at + offset) % slot
  local is_ordinary = begun and begun <= now and now - begun < span and oldest_at <= at and cost <= limit
    and total >= 0 and total <= 2 ^ 52 and expires >= 0 and border >= 0 and oldest_at >= 0
    and count >= 0 and count <= 2 ^ 52 and oldest_count >= 0 and oldest_count <= 2 ^ 52
  local popped = 0
  while is_ordinary and now - (oldest_at - (oldest_at + offset) % slot) >= span do
    total = math.max(0, total - oldest_count)
    if old == '' and not from_text then
      -- The oldest of the list; behind them, those that are not in it yet.
      local texts = call('LRANGE', key, format('%d', -4 - popped), format('%d', -1 - popped))
      if texts[1] == head then
        table.remove(texts, 1)
      end
      popped = popped + #texts
      if #texts == 0 then
        for text in string.gmatch(young, '[^,]+') do
          texts[#texts + 1] = text
        end
        -- The newest first.
        young = ''
      end
      for i = #texts, 1, -1 do
        old = old .. texts[i] .. ','
      end
    end
    local text, rest = match(old, '^([^,]+),(.*)$')
    is_ordinary = text
    if text then
      oldest_at, oldest_count = match(text, '^(%d+)(%d%d%d%d)$')
      if not oldest_at then
        oldest_at, oldest_count = match(text, '^(%d+):(%d+)$')
      end
      old, is_ordinary = rest, oldest_at
      oldest_at, oldest_count = oldest_at and oldest_at + 0, oldest_count and oldest_count + 0
    end
  end

  if is_ordinary and total + cost <= limit then
    total = total + cost
    local own = now - (now + offset) % slot
    if begun >= own then
      at, count = at > now and at or now, count + cost
    else
      young = format(count <= 9999 and '%d%04d,' or '%d:%d,', at, count) .. young
      begun, at, count = own, now, cost
    end
    local till = begun + span
    local expiry = expires
    if expiry <= till + 2000 or expiry > now + 164160000000000 then
      expiry = till + math.ceil((till - now) / 2) + 2000
    end

    if popped > 0 then
      call('RPOP', key, format('%d', popped))
    end
    if from_text then
      call('LPOP', key)
      call('RPOP', key)
    end
    if #young <= 80 then
      head = struct.pack('>ddddddd', total, expiry, #young, at, count, oldest_at, oldest_count)
      call('LSET', key, 0, '*' .. head .. young .. old)
    else
      local texts = {}
      for text in string.gmatch(young, '[^,]+') do
        table.insert(texts, 1, text)
      end
      head = struct.pack('>ddddddd', total, expiry, 0, at, count, oldest_at, oldest_count)
      texts[#texts + 1] = '*' .. head .. old
      call('LSET', key, 0, texts[1])
      call('LPUSH', key, unpack(texts, 2))
    end
    if expiry ~= expires then
      call('PEXPIRE', key, format('%d', (expiry - now) / 1000 + 2))
    end
    return { till - now, limit - total, at - now }
  end
  -- It has to wait for the oldest entry alone.
  if is_ordinary and total - oldest_count + cost <= limit then
    local fits_at = oldest_at - (oldest_at + offset) % slot + span
    return { now - begun - span, total < limit and limit - total or 0, fits_at - now }
  end
end
