-- The short way of a check by dated entries in a list. It keeps the ends of the list in its head, so
-- that most checks read and write one element. What is not ordinary goes the long way, which follows:
-- a fresh subject, permits promised for later, notes, foreign or corrupt values.
--
-- KEYS[1]  as in list.lua, where the head that is written here is described too
-- ARGV     the quota, as in ledger.lua; then the cost, or nothing for one permit
-- Reply    the numbers, as of the long way
-- Cost     TIME and one read; one write if it admits; one more for each sixth entry that is added, and
--          two for each sixth that is over
do
  local key = KEYS[1]
  local head, from_text = call('LINDEX', key, 0), false
  local total, expires, at, count, oldest_at, oldest_count
  local border = 0
  local young, old = '', ''
  if head and #head >= 57 and #head <= 1024 and string.byte(head) == 42 then
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
    and total >= 0 and total <= 2 ^ 52 and expires >= 0 and border >= 0 and border <= 256 and oldest_at >= 0
    and count >= 0 and count <= 2 ^ 52 and oldest_count >= 0 and oldest_count <= 2 ^ 52
  local popped = 0
  while is_ordinary and now - (oldest_at - (oldest_at + offset) % slot) >= span do
    total = math.max(0, total - oldest_count)
    if old == '' and not from_text then
      -- The oldest of the list; behind them, those that are not in it yet.
      local texts = call('LRANGE', key, format('%d', -6 - popped), format('%d', -1 - popped))
      if texts[1] == head then
        table.remove(texts, 1)
      end
      popped = popped + #texts
      if #texts == 0 then
        for text in string.gmatch(young, '[^,]+') do
          texts[#texts + 1] = text
        end
        young = ''
      end
      for i = #texts, 1, -1 do
        old = old .. texts[i] .. ','
      end
    end
    local next_at, next_count, behind = match(old, '^(%d+)(%d%d%d%d),()')
    if not next_at then
      next_at, next_count, behind = match(old, '^(%d+):(%d+),()')
    end
    is_ordinary = next_at
    if next_at then
      old, oldest_at, oldest_count = string.sub(old, behind), next_at + 0, next_count + 0
    end
  end

  if is_ordinary and total + cost <= limit then
    total = total + cost
    local own = now - (now + offset) % slot
    if begun >= own then
      at, count = at > now and at or now, count + cost
    else
      young = format(count <= 9999 and '%015d%04d,' or '%015d:%d,', at, count) .. young
      begun, at, count = own, now, cost
    end
    local till = begun + span
    local expiry = expires
    if expiry <= till + 2000 or expiry > now + 164160000000000 then
      expiry = till + math.ceil((till - now) / 2) + 2000
    end

    if popped > 0 then
      -- Without the reply that RPOP would make of them.
      call('LTRIM', key, 0, format('%d', -1 - popped))
    end
    if from_text then
      call('LPOP', key)
      call('RPOP', key)
    end
    -- So many entries have 20 characters each, if not more.
    local first, second, third, fourth, fifth, sixth
    if #young > 115 then
      first, second, third, fourth, fifth, sixth =
        match(young, '^([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),$')
    end
    if sixth then
      young = ''
    end
    head = struct.pack('>ddddddd', total, expiry, #young, at, count, oldest_at, oldest_count)
    call('LSET', key, 0, sixth or '*' .. head .. young .. old)
    if sixth then
      call('LPUSH', key, fifth, fourth, third, second, first, '*' .. head .. old)
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
