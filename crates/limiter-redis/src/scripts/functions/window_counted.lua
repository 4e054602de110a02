-- Returns how many permits count at a moment: those of the window before fade.
local function window_counted(window, at)
  local left = math.min(window.ends - at, window.length)
  return window.count + (window.previous > 0 and scaled(left, window.previous, window.length) or 0)
end
