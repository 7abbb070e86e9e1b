-- HAProxy requests a decision from gate for each request; loaded by haproxy.cfg beside this file, which lists what not to change.
--
--   http-request lua.gate https://app.example.com      the origin that gate evaluates: from the configuration, never the client's
--
-- 2xx: the request continues, with the headers of the decision in place of the client's. Any other response goes to the browser. No
-- response, or an unexpected one: 503. Only a 2xx leads to the application.

local GATE = "127.0.0.1:8443"
local FORWARD_AUTH_HOST = "forward.example.com"

-- Headers for the application; an empty value removes the client's header.
local COPIED = { "x-gate-jwt-assertion", "x-gate-claim-email", "x-gate-claim-groups", "cookie", "authorization" }

-- Client headers that are not sent to gate: they belong to the connection, or only the front proxy may set them.
local NOT_ASKED = {
  ["host"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["connection"] = true, ["keep-alive"] = true,
  ["proxy-connection"] = true, ["upgrade"] = true, ["te"] = true, ["trailer"] = true, ["expect"] = true,
  ["x-original-url"] = true, ["x-original-uri"] = true, ["x-original-method"] = true, ["x-forwarded-prefix"] = true,
  ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true, ["x-forwarded-proto"] = true, ["x-forwarded-method"] = true,
  ["x-forwarded-for"] = true, ["x-real-ip"] = true, ["forwarded"] = true,
}

-- Headers of gate's response that the browser does not get.
local NOT_PASSED_ON = { ["content-length"] = true, ["transfer-encoding"] = true, ["connection"] = true, ["keep-alive"] = true }

local function question(txn, origin)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not NOT_ASKED[name:lower()] then
      headers[name] = {}
      for _, value in pairs(values) do
        table.insert(headers[name], value)
      end
    end
  end
  -- pathq is the path and query as the client wrote them, in HTTP/1 and HTTP/2 alike.
  headers["x-original-url"] = { origin .. txn.sf:pathq() }
  headers["x-forwarded-method"] = { txn.sf:method() }
  headers["x-forwarded-for"] = { tostring(txn.sf:src()) }
  return headers
end

local function refuse(txn, status, headers, body)
  local reply = txn:reply({ status = status, body = body })
  for name, values in pairs(headers) do
    if not NOT_PASSED_ON[name:lower()] then
      for _, value in pairs(values) do
        reply:add_header(name, value)
      end
    end
  end
  txn:done(reply)
end

core.register_action("gate", { "http-req" }, function(txn, origin)
  local answer = core.httpclient():get({
    url = "http://" .. FORWARD_AUTH_HOST .. "/",
    dst = GATE,
    headers = question(txn, origin),
    timeout = 5000,
  })
  local status = answer and answer.status or 0
  if status >= 200 and status < 300 then
    for _, name in ipairs(COPIED) do
      txn.http:req_del_header(name)
      local values = answer.headers[name] or {}
      for _, value in pairs(values) do
        if value ~= "" then
          txn.http:req_add_header(name, value)
        end
      end
    end
  elseif status >= 300 then
    refuse(txn, status, answer.headers, answer.body or "")
  else
    refuse(txn, 503, {}, "")
  end
end, 1)
