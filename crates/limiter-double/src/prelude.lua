-- Arguments  execute, which runs a command and returns whether it succeeded, and its reply or { err, line };
--            line_at, which returns the line that runs at a level of the stack; and sha1hex
-- Returns    a function that runs a script, the globals that scripts see, and their environment
local execute, line_at, sha1hex = ...
local error, pcall, xpcall, type, tostring, setmetatable = error, pcall, xpcall, type, tostring, setmetatable

-- Not as tail calls, because the stack shows the line of the script.
local function call(...)
  local ok, reply = execute(...)
  if not ok then
    error(reply, 0)
  end
  return reply
end

local function protected_call(...)
  local _, reply = execute(...)
  return reply
end

-- An error of a command is a table, of which `pcall` returns the text.
local function caught(ok, value, ...)
  if not ok and type(value) == 'table' and type(value.err) == 'string' then
    return false, value.err
  end
  return ok, value, ...
end

local function handler(problem)
  if type(problem) ~= 'table' then
    problem = { err = 'ERR ' .. tostring(problem) }
  end
  problem.line = problem.line or line_at(2)
  return problem
end

local globals = setmetatable({
  redis = {
    call = call,
    pcall = protected_call,
    sha1hex = sha1hex,
    error_reply = function(text) return { err = text } end,
    status_reply = function(text) return { ok = text } end,
  },
  pcall = function(...) return caught(pcall(...)) end,
  assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal, rawget = rawget,
  select = select, setmetatable = setmetatable, getmetatable = getmetatable, tonumber = tonumber, tostring = tostring,
  type = type, unpack = unpack, xpcall = xpcall, math = math, string = string, table = table,
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
