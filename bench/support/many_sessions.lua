-- Each request by another session: wrk ... -s many_sessions.lua URL -- FILE HOST each|COUNT
-- FILE has a Cookie header's value a line.  `each`: all in order, once; COUNT: any of the first COUNT.
local requests, count, number, is_once = {}, 0, 0, false

function init(arguments)
  wrk.headers["Host"] = arguments[2]
  for line in io.lines(arguments[1]) do
    wrk.headers["Cookie"] = line
    requests[#requests + 1] = wrk.format("GET", "/")
  end
  is_once, count = arguments[3] == "each", tonumber(arguments[3]) or #requests
  math.randomseed(1)
end

function request()
  if not is_once then return requests[math.random(count)] end
  number = number + 1
  if number == count then wrk.thread:stop() end
  return requests[(number - 1) % count + 1]
end
