"""Lua scripts of the kvstore: each runs atomically, so a version check and its write cannot be separated.

Every key has the hash tag {gate}, so that a cluster stores them in one slot: the scripts number all changes with one version.

meta      hash: version, compacted_version (changes up to it are no longer available), run_id and epoch (see `current_epoch`)
records   hash: "<type> NUL <id>" -> version, modified, expires as big-endian doubles, then the data (empty if deleted)
ids       sorted set of the same names with score 0, without deleted records, for pages in order
changes   sorted set: name -> the version of its last change
expiries  sorted set: name -> its expiry
news      stream of at most one entry, whose id is the version: the listener blocks on it
"""

KEYS = tuple(f"{{gate}}{name}" for name in ("meta", "records", "ids", "changes", "expiries", "news"))
LEASE = "{gate}lease/"
HEADER = ">ddd"
HEADER_BYTES = 24

# A restarted server, or a replica after failover, may have lost the last writes although readers have seen their versions.
# So its epoch starts above every version that can have been issued, and no reader continues across it.  2^53 is reached in 2255.
#
# A full server (maxmemory) refuses a script if its first write may need memory; later writes of a script are not checked.  So the scripts
# that must always succeed, or that free memory, start with a write that needs none: new epochs, deletions, leases.
_PRELUDE = """
local meta, records, ids, changes, expiries, news = unpack(KEYS)
local HUGE = math.huge

local function text(number) return string.format('%.0f', number) end

local function current_epoch()
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local found = redis.call('HMGET', meta, 'version', 'compacted_version', 'run_id')
  local version, compacted = tonumber(found[1]) or 0, tonumber(found[2]) or 0
  if found[3] ~= run_id then
    local time = redis.call('TIME')
    version = math.max(version + 1000000000, tonumber(time[1]) * 1000000 + tonumber(time[2]))
    compacted = version
    redis.call('HDEL', meta, 'epoch')
    local epoch = run_id .. '-' .. text(version)
    redis.call('HSET', meta, 'version', text(version), 'compacted_version', text(version), 'run_id', run_id, 'epoch', epoch)
  end
  return version, compacted
end

-- A fast clock must not expire records for other processes.
local function earlier(local_time)
  local time = redis.call('TIME')
  return math.min(tonumber(local_time), tonumber(time[1]) + tonumber(time[2]) / 1000000)
end

local function live_version(record, now)
  if not record or #record <= 24 then return 0 end
  local version, modified, expires = struct.unpack('>ddd', record)
  return expires > now and version or 0
end

local function record_change(version, name)
  redis.call('HSET', meta, 'version', text(version))
  redis.call('ZADD', changes, text(version), name)
  redis.call('XADD', news, 'MAXLEN', 1, text(version) .. '-0', 'v', '')
end

local function tombstone(version, name, now)
  redis.call('ZREM', ids, name)
  redis.call('ZREM', expiries, name)
  redis.call('HSET', records, name, struct.pack('>ddd', version, now, HUGE))
  record_change(version, name)
end
"""

# name, modified and expires packed, data, now, expires as a score or '', the required version or ''
PUT = (
    _PRELUDE
    + """
local name, times, data, now, expires, only_if = ARGV[1], ARGV[2], ARGV[3], earlier(ARGV[4]), ARGV[5], ARGV[6]
local version = current_epoch()
if only_if ~= '' and live_version(redis.call('HGET', records, name), now) ~= tonumber(only_if) then return false end
version = version + 1
redis.call('HSET', records, name, struct.pack('>d', version) .. times .. data)
redis.call('ZADD', ids, 0, name)
if expires ~= '' then redis.call('ZADD', expiries, expires, name) else redis.call('ZREM', expiries, name) end
record_change(version, name)
return text(version)
"""
)

# name, now
DELETE = (
    _PRELUDE
    + """
local name, now = ARGV[1], earlier(ARGV[2])
local record = redis.call('HGET', records, name)
if not record or #record <= 24 then return 0 end
tombstone(current_epoch() + 1, name, now)
return live_version(record, now) > 0 and 1 or 0
"""
)

# the first name of the page, its exclusive end, limit, now
PAGE = (
    _PRELUDE
    + """
local first, last, limit, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), earlier(ARGV[4])
local page = {}
while #page < 2 * limit do
  local names = redis.call('ZRANGEBYLEX', ids, first, last, 'LIMIT', 0, math.min(limit, 500))
  if #names == 0 then break end
  local found = redis.call('HMGET', records, unpack(names))
  for at, name in ipairs(names) do
    if #page < 2 * limit and live_version(found[at], now) > 0 then
      page[#page + 1] = name
      page[#page + 1] = found[at]
    end
  end
  first = '(' .. names[#names]
end
return page
"""
)

# since, limit
CHANGES = (
    _PRELUDE
    + """
local version, compacted = current_epoch()
local since = tonumber(ARGV[1])
if since < compacted or since > version then return {1, text(version)} end
local names = redis.call('ZRANGEBYSCORE', changes, '(' .. ARGV[1], '+inf', 'LIMIT', 0, tonumber(ARGV[2]))
local answer = {0, text(version)}
if #names > 0 then
  local found = redis.call('HMGET', records, unpack(names))
  for at, name in ipairs(names) do
    answer[#answer + 1] = name
    answer[#answer + 1] = found[at]
  end
end
return answer
"""
)

EPOCH = (
    _PRELUDE
    + """
current_epoch()
return redis.call('HGET', meta, 'epoch')
"""
)

CLOCK = "local time = redis.call('TIME') return time[1] .. '.' .. string.format('%06d', time[2])"

EVICTION_POLICY = "return string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:(%S+)') or 'noeviction'"

# now, limit: delete expired records; returns the number of names processed
EXPIRE = (
    _PRELUDE
    + """
local now = earlier(ARGV[1])
local names = redis.call('ZRANGEBYSCORE', expiries, '-inf', string.format('%.6f', now), 'LIMIT', 0, tonumber(ARGV[2]))
local version = current_epoch()
for at, name in ipairs(names) do tombstone(version + at, name, now) end
return #names
"""
)

# now, retention in seconds, maximum number, limit: compact the oldest changes and their tombstones; returns their number
COMPACT = (
    _PRELUDE
    + """
local before, keep, limit = earlier(ARGV[1]) - tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
current_epoch()
local oldest = redis.call('ZRANGE', changes, 0, limit - 1, 'WITHSCORES')
local excess, gone, compacted = redis.call('ZCARD', changes) - keep, 0, nil
for at = 1, #oldest, 2 do
  local name, record = oldest[at], redis.call('HGET', records, oldest[at])
  local modified = record and #record >= 24 and select(2, struct.unpack('>dd', record)) or 0
  if modified >= before and gone >= excess then break end
  redis.call('ZREM', changes, name)
  if record and #record <= 24 then redis.call('HDEL', records, name) end
  gone, compacted = gone + 1, oldest[at + 1]
end
if compacted and tonumber(compacted) > tonumber(redis.call('HGET', meta, 'compacted_version')) then
  redis.call('HSET', meta, 'compacted_version', text(tonumber(compacted)))
end
return gone
"""
)

# key; token, milliseconds
ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
RENEW = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', KEYS[1], ARGV[2])"
RELEASE = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])"
