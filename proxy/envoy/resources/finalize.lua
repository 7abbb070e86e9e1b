-- What gate lets pass but can't have Envoy do by a header alone: another target; a body, of which nothing goes on before it is whole; and,
-- over HTTP/2, requests that have said nothing of a body, and may pass without one, of which only Envoy knows.
-- The mark is the last act: on an error, or with a body that was not judged, or trailers, of which the rest of this is run too late, there
-- is no way to anywhere.

function envoy_on_request(handle)
  local headers = handle:headers()
  local target, bodiless, upload = headers:get("$PATH"), headers:get("$BODILESS"), headers:get("$UPLOAD")
  if not target and not bodiless and not upload then return end
  if bodiless and (handle:bodyChunks()() ~= nil or handle:trailers() ~= nil) then return end
  if upload then
    handle:body()
    headers = handle:headers()
  end
  if target then headers:replace(":path", target) end
  headers:replace("$JUDGED", "$MARK")
  handle:clearRouteCache()
end
