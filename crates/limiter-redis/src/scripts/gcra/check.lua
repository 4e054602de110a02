local take, parts, is_gcra = gcra, 3, true
