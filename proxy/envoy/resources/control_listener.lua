-- Control listener in Envoy: resets the connections of clients whose access has ended. Only gate can reach its socket.
--
-- POST /cut and /finish: the body has 18 bytes per connection, its address as IPv6 (RFC 4291 2.5.5.2) and its port. The response to /cut
-- lists the connections that were open and are now reset. /finish closes connections whose response is complete, as if the client had
-- closed them; its response lists those whose clients have not received all data yet.

local ffi = require("ffi")
ffi.cdef [[
typedef struct gate_directory gate_directory;
gate_directory *opendir(const char *name);
void *readdir(gate_directory *directory);
void rewinddir(gate_directory *directory);
int getpeername(int fd, void *address, unsigned int *length);
int getsockname(int fd, void *address, unsigned int *length);
int connect(int fd, const void *address, unsigned int length);
int ioctl(int fd, unsigned long request, ...);
int shutdown(int fd, int how);
]]
local C = ffi.C
local AF_INET, AF_INET6, NAME_AT = 2, 10, 19 -- struct dirent of 64-bit Linux
local SIOCOUTQ, SHUT_RD = 0x5411, 0
local MAPPED = string.rep("\0", 10) .. "\255\255"
local address, length, unspecified = ffi.new("uint8_t[128]"), ffi.new("unsigned int[1]"), ffi.new("uint8_t[16]")
local unsent = ffi.new("int[1]")
-- Opened once, because no file descriptor may be left when it is needed.
local directory = C.opendir("/proc/self/fd")

local function read_name(call, fd)
  length[0] = 128
  if call(fd, address, length) ~= 0 then return nil end
  local family = address[0] + 256 * address[1]
  local port = ffi.string(address + 2, 2)
  if family == AF_INET then return MAPPED .. ffi.string(address + 4, 4) .. port, port end
  if family == AF_INET6 then return ffi.string(address + 8, 16) .. port, port end
  return nil
end

-- Envoy then handles it like a close by the client: it closes TLS, and then the connection.
local function shut_down(fd)
  if C.ioctl(fd, SIOCOUTQ, unsent) ~= 0 or unsent[0] > 0 then return false end
  return C.shutdown(fd, SHUT_RD) == 0
end

local function handle_connections(requested, path)
  if directory == nil then error("the connections can't be listed") end
  C.rewinddir(directory)
  local open = {}
  while true do
    local entry = C.readdir(directory)
    if entry == nil then break end
    local fd = tonumber(ffi.string(ffi.cast("char *", entry) + NAME_AT))
    local peer = fd and read_name(C.getpeername, fd)
    if peer and requested[peer] then
      local _, local_port = read_name(C.getsockname, fd)
      if local_port == $PORT and not (path == "/finish" and shut_down(fd)) then
        open[#open + 1] = peer
        -- Connecting to AF_UNSPEC resets a TCP connection and drops unsent data (connect(2)).
        if path == "/cut" then C.connect(fd, unspecified, 16) end
      end
    end
  end
  return table.concat(open)
end

function envoy_on_request(handle)
  local path = handle:headers():get(":path")
  local body = handle:body()
  local text = body and body:getBytes(0, body:length()) or ""
  local requested = {}
  for position = 1, #text - 17, 18 do requested[text:sub(position, position + 17)] = true end
  handle:respond({[":status"] = "200"}, handle_connections(requested, path))
end
