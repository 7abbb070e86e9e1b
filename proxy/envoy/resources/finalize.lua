-- Finalizes authorized requests that need more than headers: another target, a body that must be buffered completely, or an HTTP/2 request
-- of which only Envoy knows whether it has a body; it is only authorized without one.
-- The secret is set last. After an error, with an unauthorized body or with trailers, for which this would run too late, no route matches.

function envoy_on_request(handle)
  local headers = handle:headers()
  local target, body_undeclared, buffer_body = headers:get("$PATH"), headers:get("$BODY_UNDECLARED"), headers:get("$BUFFER_BODY")
  if not target and not body_undeclared and not buffer_body then return end
  if body_undeclared and (handle:bodyChunks()() ~= nil or handle:trailers() ~= nil) then return end
  if buffer_body then
    handle:body()
    headers = handle:headers()
  end
  if target then headers:replace(":path", target) end
  headers:replace("$AUTHORIZED", "$SECRET")
  handle:clearRouteCache()
end
