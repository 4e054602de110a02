local take, parts, is_gcra = counter, 4, false
