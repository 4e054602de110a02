local take = counter
