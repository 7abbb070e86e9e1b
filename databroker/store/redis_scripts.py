"""Lua programs of the kvstore: what it does in one step, so that a version check and its write can't be parted.

Every key has the hash tag {gate}: in a cluster they all live in one slot, as versions that grow by one store-wide demand.

meta      hash: version, compacted_version (changes up to it can't be read any more), run_id and epoch (see `current_epoch`)
records   hash: "<type> NUL <id>" -> version, modified, expires as big-endian doubles, then the data; nothing after them where deleted
ids       sorted set of the same names, all with score 0, without the deleted ones: pages in order
changes   sorted set: name -> the version of its last change
expiries  sorted set: name -> when it expires
news      stream of at most one entry, whose id is the version: who waits for a change blocks on it
"""

KEYS = tuple(f"{{gate}}{name}" for name in ("meta", "records", "ids", "changes", "expiries", "news"))
LEASE = "{gate}lease/"
HEADER = ">ddd"
HEADER_BYTES = 24

# A server that started anew, or another one that took over, may have lost the last writes although their versions were seen.
# So its life begins beyond every version that can have been given out, and no reader goes on across.  2^53 is reached in 2255.
#
# A server that is full (maxmemory) refuses a program's first write where that may take room, and none after another one.  So what must
# be done all the same, and what makes room again, begins with a write that takes none: a new life, deletions, leases.
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

-- Whose clock is ahead must not end what is good for all others.
local function earlier(ours)
  local time = redis.call('TIME')
  return math.min(tonumber(ours), tonumber(time[1]) + tonumber(time[2]) / 1000000)
end

local function live_version(record, now)
  if not record or #record <= 24 then return 0 end
  local version, modified, expires = struct.unpack('>ddd', record)
  return expires > now and version or 0
end

local function tell(version, name)
  redis.call('HSET', meta, 'version', text(version))
  redis.call('ZADD', changes, text(version), name)
  redis.call('XADD', news, 'MAXLEN', 1, text(version) .. '-0', 'v', '')
end

local function bury(version, name, now)
  redis.call('ZREM', ids, name)
  redis.call('ZREM', expiries, name)
  redis.call('HSET', records, name, struct.pack('>ddd', version, now, HUGE))
  tell(version, name)
end
"""

# name, modified and expires packed, data, now, expires as a score or '', the version it must have or ''
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
tell(version, name)
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
bury(current_epoch() + 1, name, now)
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

# now, limit: delete what has expired; returns how many were looked at
EXPIRE = (
    _PRELUDE
    + """
local now = earlier(ARGV[1])
local names = redis.call('ZRANGEBYSCORE', expiries, '-inf', string.format('%.6f', now), 'LIMIT', 0, tonumber(ARGV[2]))
local version = current_epoch()
for at, name in ipairs(names) do bury(version + at, name, now) end
return #names
"""
)

# now, for how long, how many to keep, limit: forget the oldest changes, and of deleted records that they were; returns how many
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
