-- Rewrites response headers like `ResponseHeaderRules.filter`; Envoy's own configuration does the rest (response_filter.py).

local CONNECTION_OPTIONS = {close = true, ["keep-alive"] = true, ["content-length"] = true, ["transfer-encoding"] = true, upgrade = true}
-- Headers that the configuration adds; Envoy has added them before this script runs.
local ADDED_NAMES = {$ADDED}

-- Trims trailing blanks. The pattern "[ \t]+$" takes quadratic time on a run of blanks, which an upstream may send.
local function trimmed(text)
  local last = #text
  while last > 0 and (text:byte(last) == 32 or text:byte(last) == 9) do last = last - 1 end
  return text:sub(1, last)
end

local function is_gate_cookie(value)
  local name = value:match("^[^;]*"):gsub("^[= \t]+", "")
  name = trimmed(name:match("^[^=]*")):lower()
  local bare = name:sub(1, 7) == "__host-" and name:sub(8) or name
  for _, each in ipairs({name, bare}) do
    if each == $COOKIE_NAME or each:sub(1, #$COOKIE_NAME + 1) == $COOKIE_NAME .. "_" then return true end
  end
  return false
end

-- Well-formed UTF-8 above ASCII, except U+0080 to U+009F (foundation/web/field_values.py).
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

local function call_headers(path)
  return {[":method"] = "POST", [":path"] = path, [":authority"] = "gate", ["$TOKEN"] = "$PROOF", ["$SCRIPT"] = "1"}
end

-- Replaces a complete response by an error page of gate. After a protocol switch the response never completes, so it gets no page.
local function replace_response(handle, stream_id, reason)
  local is_upgrade = handle:headers():get(":status") == "101"
  if not is_upgrade then handle:body(true) end
  local reply, page = handle:httpCall("$EXT_AUTHZ", call_headers("$ERROR_PAGE_PATH"), stream_id .. "\n" .. reason, 5000)
  local headers = handle:headers()
  headers:remove("$LOCAL_REPLY_REASON")
  local status, length, rest = (page or ""):match("^(%d+) (%d+)\n(.*)$")
  if reply[":status"] ~= "200" or not status then return end
  local body = rest:sub(length + 1)
  local names = {}
  for name in pairs(headers) do
    if name:byte(1) ~= 58 then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do headers:remove(name) end
  headers:replace(":status", status)
  for name, value in rest:sub(1, length):gmatch("([^\n]*)\n([^\n]*)\n") do headers:add(name, value) end
  if is_upgrade then headers:replace("content-length", "0") else handle:body(true):setBytes(body) end
end

-- Decodes the response header rules of the route (proxy/rewriting/response_headers.py).
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
  local reply, status = headers:get("$LOCAL_REPLY_REASON"), tonumber(headers:get(":status"))
  local metadata = reply and handle:streamInfo():dynamicMetadata():get("$METADATA")
  -- A local reply of Envoy starts with the stream id, which applications do not know.
  local prefix = metadata and metadata["$STREAM_ID"] and metadata["$STREAM_ID"] .. " "
  local local_reply = prefix and reply:sub(1, #prefix) == prefix and reply:sub(#prefix + 1)
  if reply and not local_reply then headers:remove("$LOCAL_REPLY_REASON") end
  local is_valid_status = status and status >= 200 and status <= 599
  if local_reply or not is_valid_status or $REPORTS_NON_STREAMS then
    metadata = metadata or handle:streamInfo():dynamicMetadata():get("$METADATA")
    local stream_id = metadata and metadata["$STREAM_ID"]
    if stream_id and (local_reply or not is_valid_status) then
      return replace_response(handle, stream_id, local_reply or "status " .. status)
    end
    local requested, kind = metadata and metadata["$MAY_STREAM"], (headers:get("content-type") or ""):lower()
    local is_stream = kind:find("text/event-stream", 1, true) == 1 or (requested == "grpc" and kind:find("application/grpc", 1, true) == 1)
    if stream_id and requested and not is_stream then handle:httpCall("$EXT_AUTHZ", call_headers("$NOT_STREAMING_PATH"), stream_id, 5000, true) end
  end
  local count = headers:getNumValues("set-cookie")
  if count > 0 then
    local kept_cookies, is_filtered = {}, false
    for position = 0, count - 1 do
      local value = headers:getAtIndex("set-cookie", position)
      if is_gate_cookie(value) or has_c1_control(value) then is_filtered = true else kept_cookies[#kept_cookies + 1] = value end
    end
    if is_filtered then
      headers:remove("set-cookie")
      for _, value in ipairs(kept_cookies) do headers:add("set-cookie", value) end
    end
  end
  local connection = headers:get("connection")
  if connection then
    for option in connection:lower():gmatch("[^, \t]+") do
      if not (CONNECTION_OPTIONS[option] or ADDED_NAMES[option]) and option:byte(1) ~= 58 then headers:remove(option) end
    end
  end
  if $APPLIES_ROUTE_RULES then apply(handle:streamInfo():dynamicMetadata():get("$METADATA")["$RESPONSE_RULES"], headers) end
end
