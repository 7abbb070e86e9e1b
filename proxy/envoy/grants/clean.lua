-- Answers to what Envoy carried by a grant, cleaned as `ResponseHeaders.for_client` does it; the rest of that is Envoy's own (filter.py).

local STATES = {close = true, ["keep-alive"] = true, ["content-length"] = true, ["transfer-encoding"] = true, upgrade = true}

local function sets_ours(value)
  local name = value:match("^[^;]*"):gsub("^[ \t]+", ""):gsub("^[= \t]+", "")
  name = name:match("^[^=]*"):gsub("[ \t]+$", ""):lower()
  local bare = name:sub(1, 7) == "__host-" and name:sub(8) or name
  for _, each in ipairs({name, bare}) do
    if each == $COOKIE_NAME or each:sub(1, #$COOKIE_NAME + 1) == $COOKIE_NAME .. "_" then return true end
  end
  return false
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local count = headers:getNumValues("set-cookie")
  if count > 0 then
    local kept, has_ours = {}, false
    for position = 0, count - 1 do
      local value = headers:getAtIndex("set-cookie", position)
      if sets_ours(value) then has_ours = true else kept[#kept + 1] = value end
    end
    if has_ours then
      headers:remove("set-cookie")
      for _, value in ipairs(kept) do headers:add("set-cookie", value) end
    end
  end
  local connection = headers:get("connection")
  if connection then
    for option in connection:lower():gmatch("[^, \t]+") do
      if not STATES[option] and option:byte(1) ~= 58 then headers:remove(option) end
    end
  end
end
