-- Grants in Envoy: carries again what gate has judged before, as long as gate says so in its table (table.py), and asks about all else.
--
-- The judge's filter stands behind this one.  Whatever happens here, an error too, the judge is asked, unless the last two lines of
-- envoy_on_request are reached: they alone choose the route on which it is not.  So wherever there is doubt this script returns.
-- What the upstream sees is data that gate wrote: nothing of its rules is known here but how to split a Cookie header of the plain form.

local ffi = require("ffi")
local bit = require("bit")
ffi.cdef [[
typedef struct { int32_t seconds, more_seconds, nanoseconds, more_nanoseconds; } gate_time; // 64-bit numbers would be boxed
void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset);
int munmap(void *address, size_t length);
int prctl(int option, ...);
int clock_gettime(int clock, gate_time *time);
]]
local C = ffi.C
local READ, WRITE, SHARED, BOOTTIME, PR_GET_NAME = 1, 2, 1, 7, 16

local function mapped(fd, length, protection)
  local address = C.mmap(nil, length, protection, SHARED, fd, 0)
  if ffi.cast("intptr_t", address) == -1 then error("gate's grants can't be mapped") end
  return ffi.gc(ffi.cast("uint8_t *", address), function(mapping) C.munmap(mapping, length) end)
end

-- Each worker writes its uses into a place of its own: threads are named by their number.
local function worker_number()
  local name = ffi.new("char[17]")
  C.prctl(PR_GET_NAME, ffi.cast("void *", name))
  local number = tonumber(ffi.string(name):match("^wrk:worker_(%d+)$"))
  return number and number < $WORKERS and number or nil
end

-- All is read and written through these, by index: to make another pointer costs more than all else.
local worker, worker_id
local grants, uses, grants32, grants64, uses32, uses16
local own = 0 -- where this worker's uses begin, in words

-- At a request: a thread may run this script before it has its name.
local function begin()
  local number = worker_number()
  if not number then return false end
  grants = mapped($GRANTS_FD, $SIZE, READ)
  uses = mapped($USES_FD, $WORKER * $WORKERS, READ + WRITE)
  grants32, grants64 = ffi.cast("uint32_t *", grants), ffi.cast("double *", grants)
  uses32, uses16 = ffi.cast("uint32_t *", uses), ffi.cast("uint16_t *", uses)
  own = number * $WORKER / 4
  -- A pointer made of another keeps nothing alive: without this the collector unmaps what is still read.
  gate_keeps_mapped = {grants, uses}
  worker, worker_id = number, string.format("%02x000000", number)
  return true
end
local time = ffi.new("gate_time")

local function now()
  C.clock_gettime(BOOTTIME, time)
  return time.seconds + time.nanoseconds * 1e-9
end

local crc_table = ffi.new("int32_t[256]")
for byte = 0, 255 do
  local value = byte
  for _ = 1, 8 do
    value = bit.band(value, 1) == 1 and bit.bxor(bit.rshift(value, 1), 0xEDB88320) or bit.rshift(value, 1)
  end
  crc_table[byte] = value
end

-- Sum of the text from `first` on, and of what had the sum `before`.
local function crc32(text, first, before)
  local value = bit.bnot(before)
  for position = first, #text do
    value = bit.bxor(bit.rshift(value, 8), crc_table[bit.band(bit.bxor(value, text:byte(position)), 255)])
  end
  return bit.bnot(value)
end

local function number_in(slot)
  return grants32[($SLOTS + slot * $SLOT) / 4]
end

-- The grant in a slot, if it is that of the key: read as a whole, or not at all.
local function grant_in(slot, key)
  local start = $SLOTS + slot * $SLOT
  local number, lengths = grants32[start / 4], grants32[start / 4 + 4]
  local key_length, length = bit.band(lengths, 65535), bit.rshift(lengths, 16)
  if number == 0 or key_length ~= #key or $HEAD + key_length + length > $SLOT then return nil end
  if ffi.string(grants + (start + $HEAD), key_length) ~= key then return nil end
  local set, count, id = {}, 0, nil
  local position = start + $HEAD + key_length
  local stop = position + length
  while position + 4 <= stop do
    local middle = position + 4 + grants[position] + 256 * grants[position + 1]
    local finish = middle + grants[position + 2] + 256 * grants[position + 3]
    if finish > stop then break end
    local name, value = ffi.string(grants + (position + 4), middle - position - 4), ffi.string(grants + middle, finish - middle)
    if name == "x-request-id" then
      id = value
    else
      set[count + 1], set[count + 2] = name, value
      count = count + 2
    end
    position = finish
  end
  local profile, ends = grants32[start / 4 + 1], grants64[start / 8 + 1]
  if position ~= stop or not id or number_in(slot) ~= number then return nil end
  return {slot = slot, number = number, profile = profile, ends = ends, id = id, set = set}
end

local function find(peer, host, cookies)
  local key = peer.address .. host .. "|" .. cookies.session .. "|" .. cookies.companion
  local sum = crc32(key, math.max(#key - $TAIL, 0) + 1, crc32(host, 1, peer.sum))
  for step = 0, $PROBES - 1 do
    local bucket = $INDEX / 4 + 2 * bit.band(sum + step, $BUCKETS - 1)
    local slot = grants32[bucket + 1]
    if slot ~= 0 and bit.tobit(grants32[bucket]) == sum then
      local grant = grant_in(slot - 1, key)
      if grant then return grant end
    end
  end
  return nil
end

-- As `find`; the cookies remember the last one, for the next request of the same browser.  What counts is the table.
local function grant_for(peer, host, cookies)
  local grant = cookies.grant
  if grant and cookies.address == peer.address and cookies.host == host and number_in(grant.slot) == grant.number then return grant end
  grant = find(peer, host, cookies)
  cookies.grant, cookies.address, cookies.host = grant, peer.address, host
  return grant
end

-- What becomes of headers, by their names, as gate has said of each; of other names nothing is known.
local profiles = {}

local function names_of(number)
  local at = $PROFILES + number * $PROFILE
  local length = grants32[at / 4]
  local known = profiles[number]
  if known and known.length == length then return known.names end
  if length > $PROFILE - 4 then return {} end
  local names = {}
  for what, name in ffi.string(grants + at + 4, length):gmatch("([+-])([^\n]*)\n") do names[name] = what end
  profiles[number] = {length = length, names = names}
  return names
end

-- How a Cookie header splits into what gate judges by and what the upstream sees; false where that is not plain (cookies.py).
local split, splits = {}, 0

local function begins_beside(name, position)
  return name:sub(position, position + #$OWN_NAME) == $OWN_NAME .. "_"
end

local function is_beside(name)
  return begins_beside(name, 1) or (name:sub(1, 7) == "__host-" and begins_beside(name, 8))
end

local function is_blank(byte)
  return byte == 32 or byte == 9
end

-- Without patterns, which are slow: where many people come, most cookies are new here.
local function split_anew(cookie)
  local length = #cookie
  if length > $MOST_COOKIE then return false end
  local session, companion, rest = nil, $COMPANION_MISSING, nil
  local start, equals = 1, 0
  while start <= length + 1 do
    if start > 1 then
      if cookie:byte(start) ~= 32 then return false end
      start = start + 1
    end
    local stop = cookie:find(";", start, true) or length + 1
    if start >= stop or is_blank(cookie:byte(start)) or is_blank(cookie:byte(stop - 1)) then return false end
    if equals < start then equals = cookie:find("=", start, true) or length + 1 end
    local name = cookie:sub(start, math.min(equals, stop) - 1)
    local folded = name:lower()
    if is_beside(folded) then
      -- ours, and nothing that a session is judged by
    elseif folded:find($BASE_NAME, 1, true) then
      -- Whatever else no value of ours holds is in no key; but this stands between the parts of a key.
      local value = cookie:sub(equals + 1, stop - 1)
      if value == "" or value:find("|", 1, true) then return false end
      if name == $SESSION_NAME and not session then
        session = value
      elseif name == $COMPANION_NAME and not companion then
        companion = value
      else
        return false
      end
    else
      rest = rest or {}
      rest[#rest + 1] = cookie:sub(start, stop - 1)
    end
    start = stop + 1
  end
  if not session or not companion then return false end
  return {session = session, companion = companion, rest = rest and table.concat(rest, "; ")}
end

local function split_of(cookie)
  local found = split[cookie]
  if found == nil then
    found = split_anew(cookie)
    if splits >= $MOST_READ then split, splits = {}, 0 end
    split[cookie], splits = found, splits + 1
  end
  return found
end

local OWN_WORDS = {$OWN_WORDS}

local function is_plain_target(target)
  if #target > $MOST_TARGET then return false end
  local mark = target:find("?", 1, true)
  local path, query = target, nil
  if mark then path, query = target:sub(1, mark - 1), target:sub(mark + 1) end
  if not path:find("^/[%w%-._~/]*$") or path:find("//", 1, true) or path:find("/.", 1, true) then return false end
  local first = path:match("^/([^/]*)"):lower()
  if OWN_WORDS[first] then return false end
  if query == nil then return true end
  if query == "" or not query:find("^[%w%-._~!$'()*+,;:@/?&=%%]+$") then return false end
  -- gate takes tokens of its own out of a query, however their name is spelled.
  return not query:lower():find("gate", 1, true) and not ("&" .. query):find("&[^=&]*%%")
end

-- What was made out of a text of the client's once, for when it comes again; of long texts, nothing is kept.
local function remembering(make)
  local known, count = {}, 0
  return function(text)
    local found = known[text]
    if found == nil then
      found = make(text)
      if #text > $MOST_REMEMBERED then return found end
      if count >= $MOST_READ then known, count = {}, 0 end
      known[text], count = found, count + 1
    end
    return found
  end
end

local is_plain = remembering(is_plain_target)

-- Whether gate would see another value than Envoy does, or one that may ask for a stream of events.
local DOUBTFUL, OF_STREAMS, ORDINARY = 0, 1, 2
local kind_of = remembering(function(value)
  if value:find("[%c\133]") then return DOUBTFUL end
  return value:lower():find("event-stream", 1, true) and OF_STREAMS or ORDINARY
end)

local CONNECTIONS = {[""] = true, ["keep-alive"] = true, close = true}

-- The names of the headers of the request that is looked at, but for those that say how it is judged: no table for each request.
-- `turn` counts requests: while a script waits, others may be looked at.
local names, turn = {}, 0

-- The client's headers in one look: what says how the request is judged, and how many `names` there are besides; nil where there is a doubt.
local function read_headers(headers)
  local method, host, target, cookie, facts, connection
  local count, total = 0, 0
  for name, value in pairs(headers) do
    if name == "cookie" then
      if cookie then return nil end
      cookie = value
    elseif name:byte(1) == 58 then
      if name == ":method" then method = value elseif name == ":authority" then host = value elseif name == ":path" then target = value end
    elseif name == "$FACTS" then
      facts = value
    elseif name == "$CLIENT_CONNECTION" then
      connection = value
    elseif name ~= "$NUMBER" and name ~= "$CLIENT_PROTO" then
      local kind = kind_of(value)
      if kind == DOUBTFUL or (kind == OF_STREAMS and name == "accept") then return nil end
      count, total = count + 1, total + #name + #value
      names[count] = name
    end
  end
  if (method ~= "GET" and method ~= "HEAD") or not (host and target and cookie and facts) then return nil end
  if count > $MOST_HEADERS or total > $MOST_HEADER_BYTES then return nil end
  if connection and not CONNECTIONS[connection:lower()] then return nil end
  return host, target, cookie, facts, count
end

-- In which request a known name was seen last, and the names that this request's upstream must not see.
local seen, dropped = {}, {}

-- How many of the first `names` are to go; nil where one comes twice, or where nothing is known of one.
local function names_to_drop(count, known)
  local drops = 0
  for position = 1, count do
    local name = names[position]
    local what = known[name]
    if not what or seen[name] == turn then return nil end
    seen[name] = turn
    if what == "-" then
      drops = drops + 1
      dropped[drops] = name
    end
  end
  return drops
end

-- A client's address, as keys begin with it, and its port, of what Envoy tells of a request.
local peer_of = remembering(function(facts)
  local address, port = facts:match("^(%S+):(%d+) ")
  if not address then return false end
  address = (address:match("^%[(.*)%]$") or address) .. "|"
  return {address = address, sum = crc32(address, 1, 0), port = tonumber(port)}
end)

-- Where the uses of a grant by this worker stand, in words: the grant's number, tick, count, how many ports, and these.
local function use_of(grant)
  return own + ($RINGS + 4 * $RING + grant.slot * $USE) / 4
end

-- Write down that the grant is used by this connection; false where it was by too many.
local function is_noted(grant, port)
  local use = use_of(grant)
  if uses32[use] ~= grant.number then
    uses32[use + 1], uses32[use + 2], uses32[use + 3] = 0, 0, 0
    uses32[use] = grant.number
  end
  local count, ports = uses32[use + 3], 2 * (use + 4)
  for position = ports, ports + count - 1 do
    if uses16[position] == port then return true end
  end
  if count >= $MOST_PORTS then return false end
  uses16[ports + count] = port
  uses32[use + 3] = count + 1
  return true
end

-- How often this worker has carried by this grant, this time too.
local function counted(grant)
  local use, tick = use_of(grant), grants32[2]
  local count = uses32[use + 2] + 1
  uses32[use + 2] = count
  if uses32[use + 1] ~= tick then
    uses32[use + 1] = tick
    local written = uses32[own]
    uses32[own + $RINGS / 4 + written % $RING] = grant.slot
    uses32[own] = written + 1
  end
  return count
end

function envoy_on_request(handle)
  if not worker and not begin() then return end
  turn = turn + 1
  local mine, headers = turn, handle:headers()
  local host, target, cookie, facts, count = read_headers(headers)
  local cookies = host and split_of(cookie)
  local peer = cookies and peer_of(facts)
  local grant = peer and grant_for(peer, host, cookies)
  if not grant or not is_plain(target) then return end
  local drops = names_to_drop(count, names_of(grant.profile))
  if not drops then return end
  -- Of a body, or trailers, the rest of this is run after the judge was asked: too late, so it ends here.
  if handle:bodyChunks()() ~= nil or handle:trailers() ~= nil or turn ~= mine then return end
  if not is_noted(grant, peer.port) then return end
  -- Last, so that whoever takes a grant back finds the connection written down, or it is found taken back here.
  local moment = now()
  if moment >= grants64[0] or moment >= grant.ends or number_in(grant.slot) ~= grant.number then return end

  for position = 1, drops do headers:remove(dropped[position]) end
  if cookies.rest then headers:replace("cookie", cookies.rest) else headers:remove("cookie") end
  local set = grant.set
  for position = 1, #set, 2 do headers:replace(set[position], set[position + 1]) end
  headers:replace("x-request-id", grant.id .. worker_id .. bit.tohex(counted(grant)))
  headers:replace("$CARRIED", "$SECRET")
  handle:clearRouteCache()
end
