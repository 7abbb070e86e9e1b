-- Answers to what Envoy carries, cleaned as `ResponseHeaders.for_client` does it; the rest of that is Envoy's own (response_filter.py).

local STATES = {close = true, ["keep-alive"] = true, ["content-length"] = true, ["transfer-encoding"] = true, upgrade = true}
-- Names that the configuration adds: Envoy has added them before this script runs.
local ADDED = {$ADDED}

-- Without blanks at its end. The pattern "[ \t]+$" would take the square of a run of blanks, which an upstream may send.
local function trimmed(text)
  local last = #text
  while last > 0 and (text:byte(last) == 32 or text:byte(last) == 9) do last = last - 1 end
  return text:sub(1, last)
end

local function sets_ours(value)
  local name = value:match("^[^;]*"):gsub("^[= \t]+", "")
  name = trimmed(name:match("^[^=]*")):lower()
  local bare = name:sub(1, 7) == "__host-" and name:sub(8) or name
  for _, each in ipairs({name, bare}) do
    if each == $COOKIE_NAME or each:sub(1, #$COOKIE_NAME + 1) == $COOKIE_NAME .. "_" then return true end
  end
  return false
end

-- Well-formed UTF-8 above ASCII, but for U+0080 to U+009F (foundation/web/field_values.py).
local TAIL = "[\128-\191]"
local CHARACTERS = {
  "[\241-\243]" .. TAIL .. TAIL .. TAIL, "\240[\144-\191]" .. TAIL .. TAIL, "\244[\128-\143]" .. TAIL .. TAIL,
  "[\225-\236\238\239]" .. TAIL .. TAIL, "\224[\160-\191]" .. TAIL, "\237[\128-\159]" .. TAIL,
  "[\195-\223]" .. TAIL, "\194[\160-\191]",
}

local function has_c1_control(value)
  if not value:find("[\128-\159]") then return false end
  for _, character in ipairs(CHARACTERS) do value = value:gsub(character, "?") end
  return value:find("[\128-\159]") ~= nil
end

local function question(path)
  return {[":method"] = "POST", [":path"] = path, [":authority"] = "gate", ["$TOKEN"] = "$PROOF", ["$SCRIPT"] = "1"}
end

-- A page of gate's in place of an answer, once that is whole.  What follows a change of protocols has no end, so it gets no page.
local function answer_instead(handle, number, why)
  local is_endless = handle:headers():get(":status") == "101"
  if not is_endless then handle:body(true) end
  local said, page = handle:httpCall("$JUDGE", question("$INSTEAD"), number .. "\n" .. why, 5000)
  local headers = handle:headers()
  headers:remove("$FAILED")
  local status, length, rest = (page or ""):match("^(%d+) (%d+)\n(.*)$")
  if said[":status"] ~= "200" or not status then return end
  local body = rest:sub(length + 1)
  local names = {}
  for name in pairs(headers) do
    if name:byte(1) ~= 58 then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do headers:remove(name) end
  headers:replace(":status", status)
  for name, value in rest:sub(1, length):gmatch("([^\n]*)\n([^\n]*)\n") do headers:add(name, value) end
  if is_endless then headers:replace("content-length", "0") else handle:body(true):setBytes(body) end
end

-- What the route says of its answers (ResponseHeaders.told_to_envoy).
local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function apply(rules, headers)
  for sign, name, value in rules:gmatch("([+-])([^=&]+)=?([^&]*)") do
    if sign == "-" then headers:remove(decoded(name)) else headers:replace(decoded(name), decoded(value)) end
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local said, status = headers:get("$FAILED"), tonumber(headers:get(":status"))
  local known = said and handle:streamInfo():dynamicMetadata():get("$METADATA")
  -- Envoy's own word begins with the number of the request, which no application is told.
  local mark = known and known["$NUMBER"] and known["$NUMBER"] .. " "
  local failed = mark and said:sub(1, #mark) == mark and said:sub(#mark + 1)
  if said and not failed then headers:remove("$FAILED") end
  local is_good = status and status >= 200 and status <= 599
  if failed or not is_good or $WATCHES then
    known = known or handle:streamInfo():dynamicMetadata():get("$METADATA")
    local number = known and known["$NUMBER"]
    if number and (failed or not is_good) then
      return answer_instead(handle, number, failed or "status " .. status)
    end
    local wanted, kind = known and known["$MAY_STREAM"], (headers:get("content-type") or ""):lower()
    local is_stream = kind:find("text/event-stream", 1, true) == 1 or (wanted == "grpc" and kind:find("application/grpc", 1, true) == 1)
    if number and wanted and not is_stream then handle:httpCall("$JUDGE", question("$NO_STREAM"), number, 5000, true) end
  end
  local count = headers:getNumValues("set-cookie")
  if count > 0 then
    local kept, leaves_out = {}, false
    for position = 0, count - 1 do
      local value = headers:getAtIndex("set-cookie", position)
      if sets_ours(value) or has_c1_control(value) then leaves_out = true else kept[#kept + 1] = value end
    end
    if leaves_out then
      headers:remove("set-cookie")
      for _, value in ipairs(kept) do headers:add("set-cookie", value) end
    end
  end
  local connection = headers:get("connection")
  if connection then
    for option in connection:lower():gmatch("[^, \t]+") do
      if not (STATES[option] or ADDED[option]) and option:byte(1) ~= 58 then headers:remove(option) end
    end
  end
  if $HAS_RULES then apply(handle:streamInfo():dynamicMetadata():get("$METADATA")["$RESPONSE"], headers) end
end
