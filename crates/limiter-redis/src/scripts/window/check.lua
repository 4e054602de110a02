local take, parts, is_gcra = window, 4, false
