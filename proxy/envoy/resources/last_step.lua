-- What gate lets pass but can't have Envoy do by a header alone: another target; and, over HTTP/2, requests that have said nothing of a
-- body, and may pass without one, of which only Envoy knows.
-- The mark is the last act: on an error, or with a body or trailers, of which the rest of this is run too late, there is no way to anywhere.

function envoy_on_request(handle)
  local headers = handle:headers()
  local target, bodiless = headers:get("$PATH"), headers:get("$BODILESS")
  if not target and not bodiless then return end
  if bodiless and (handle:bodyChunks()() ~= nil or handle:trailers() ~= nil) then return end
  if target then headers:replace(":path", target) end
  headers:replace("$JUDGED", "$MARK")
  handle:clearRouteCache()
end
