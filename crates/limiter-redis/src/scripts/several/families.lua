
-- What takes from and gives back to a limit of each family, see `window_take` and `window_refund`.
local takes, refunds = {}, {}
