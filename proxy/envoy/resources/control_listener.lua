-- Cuts in Envoy: resets the connections of clients whose access has ended.  Only gate reaches it, by a socket of its own.
--
-- POST /cut and /finish: the body holds 18 bytes for each connection, its address as IPv6 (RFC 4291 2.5.5.2) and its port.  The answer to
-- /cut is the same list, of those that were open and are reset now.  /finish ends those that Envoy keeps for their clients alone, as if
-- these had closed; its answer lists the ones whose clients have not taken everything yet.

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
local address, length, nowhere = ffi.new("uint8_t[128]"), ffi.new("unsigned int[1]"), ffi.new("uint8_t[16]")
local waiting = ffi.new("int[1]")
-- Opened once: when it is needed, there may be no file descriptor left.
local directory = C.opendir("/proc/self/fd")

local function name_of(ask, fd)
  length[0] = 128
  if ask(fd, address, length) ~= 0 then return nil end
  local family = address[0] + 256 * address[1]
  local port = ffi.string(address + 2, 2)
  if family == AF_INET then return MAPPED .. ffi.string(address + 4, 4) .. port, port end
  if family == AF_INET6 then return ffi.string(address + 8, 16) .. port, port end
  return nil
end

-- What follows is what Envoy does at a client's end: TLS ends properly, then the connection.
local function finish(fd)
  if C.ioctl(fd, SIOCOUTQ, waiting) ~= 0 or waiting[0] > 0 then return false end
  return C.shutdown(fd, SHUT_RD) == 0
end

local function found(wanted, act)
  if directory == nil then error("the connections can't be listed") end
  C.rewinddir(directory)
  local open = {}
  while true do
    local entry = C.readdir(directory)
    if entry == nil then break end
    local fd = tonumber(ffi.string(ffi.cast("char *", entry) + NAME_AT))
    local peer = fd and name_of(C.getpeername, fd)
    if peer and wanted[peer] then
      local _, ours = name_of(C.getsockname, fd)
      if ours == $PORT and not (act == "/finish" and finish(fd)) then
        open[#open + 1] = peer
        -- Connected to nowhere, a TCP connection is reset, and what waits to be sent is dropped (connect(2)).
        if act == "/cut" then C.connect(fd, nowhere, 16) end
      end
    end
  end
  return table.concat(open)
end

function envoy_on_request(handle)
  local path = handle:headers():get(":path")
  local body = handle:body()
  local text = body and body:getBytes(0, body:length()) or ""
  local wanted = {}
  for position = 1, #text - 17, 18 do wanted[text:sub(position, position + 17)] = true end
  handle:respond({[":status"] = "200"}, found(wanted, path))
end
