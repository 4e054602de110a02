local take = window
