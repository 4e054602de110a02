-- Arguments  call and protected_call, which run a command; plain, which returns an error as scripts see it; and handler,
--            which returns the text and the line of an error
-- Returns    a function that runs a script, the globals that scripts see, and their environment
local call, protected_call, plain, handler = ...
local error, pcall, xpcall, tostring, setmetatable = error, pcall, xpcall, tostring, setmetatable

local function caught(ok, value, ...)
  if not ok then
    return false, plain(value)
  end
  return ok, value, ...
end

local globals = setmetatable({
  redis = { call = call, pcall = protected_call },
  pcall = function(...) return caught(pcall(...)) end,
  assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal, rawget = rawget,
  select = select, setmetatable = setmetatable, getmetatable = getmetatable, tonumber = tonumber, tostring = tostring,
  type = type, unpack = unpack, math = math, string = string, table = table,
}, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

local environment = setmetatable({}, {
  __index = globals,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})

return function(script) return xpcall(script, handler) end, globals, environment
