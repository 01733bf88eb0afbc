"""What `RedisStore` has its server do, each script one step that nothing comes between.

`KEYS[1]` names the marker, `ARGV[1]` is the marker as it was when the store was made: where it is another one, or gone,
the keys beside it are not those that were written, and the answer is nil. Times are the server's own.
"""

from typing import Final

# `seen` goes before every answer that writes nothing: `PERSIST` changes nothing here, but is a command that writes, so
# that a server that became a replica, whose data may be old, refuses to read as well. It stands behind every other
# command that writes: after one that needs no memory, the server lets a script have as much as it likes.
_START: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(number) return string.format('%.0f', number) end
local function seen(answer)
  redis.call('PERSIST', KEYS[1])
  return answer
end
"""

# KEYS: marker, the session's head, its order, its slots. ARGV[2]: how long a session is kept, in ms.
_SESSION: Final = (
    _START
    + """
local head, order, slots, idle = KEYS[2], KEYS[3], KEYS[4], tonumber(ARGV[2])
local function keep()
  for key = 2, 4 do redis.call('PEXPIREAT', KEYS[key], whole(now + idle)) end
end
"""
)

# To read must not mean to write each time: the time is stretched once a fiftieth of it is over
_READ: Final = (
    _SESSION
    + """
local left = redis.call('PTTL', head)
if left >= 0 and left < idle * 0.98 then keep() end
"""
)

MARK: Final = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
"""

# Further ARGV: the bound of each kind; then for each slot: group, name, value, '1' if it has a rank, the rank, the kind
PUT: Final = (
    _SESSION
    + """
local fresh, more = {}, {}
for at = 4, #ARGV, 6 do
  local field = ARGV[at] .. ARGV[at + 1]
  if redis.call('HEXISTS', slots, field) == 0 then fresh[field] = ARGV[at + 5] end
end
for _, kind in pairs(fresh) do
  if kind ~= '' then more[kind] = (more[kind] or 0) + 1 end
end
local full = redis.call('HEXISTS', head, 'full') == 1
for kind, count in pairs(more) do
  local held = tonumber(redis.call('HGET', head, 'count:' .. kind) or 0)
  full = full or held + count > tonumber(ARGV[3])
end
if full then
  redis.call('HSET', head, 'full', '1')
  keep()
  return 0
end

-- By bytes, as every store does: the server's own comparison goes by its locale
local function less(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end

for kind, count in pairs(more) do redis.call('HINCRBY', head, 'count:' .. kind, count) end
for at = 4, #ARGV, 6 do
  local group, name = ARGV[at], ARGV[at + 1]
  local held = redis.call('HGET', slots, group .. name)
  local present = ''
  if held then
    local colon = string.find(held, ':', 1, true)
    present = string.sub(held, colon + 1, colon + tonumber(string.sub(held, 1, colon - 1)))
  else
    local number = redis.call('HINCRBY', head, 'last', 1)
    redis.call('ZADD', order, 0, group .. string.format('%015d', number) .. name)
  end
  local rank = present
  if ARGV[at + 3] == '1' then rank = ARGV[at + 4] end
  if not less(rank, present) then
    redis.call('HSET', slots, group .. name, #rank .. ':' .. rank .. ARGV[at + 2])
  end
end
keep()
return 1
"""
)

# Further ARGV: the group, the text after all that begin with it, at most so many (-1: all)
READ: Final = (
    _READ
    + """
local group, found = ARGV[3], {}
for _, member in ipairs(redis.call('ZRANGEBYLEX', order, '[' .. group, '(' .. ARGV[4], 'LIMIT', 0, ARGV[5])) do
  local name = string.sub(member, #group + 16)
  found[#found + 1] = name
  found[#found + 1] = redis.call('HGET', slots, group .. name)
end
return seen(found)
"""
)

# Further ARGV: the group, the names
READ_MANY: Final = (
    _READ
    + """
local found = {}
for at = 4, #ARGV do found[#found + 1] = redis.call('HGET', slots, ARGV[3] .. ARGV[at]) end
return seen(found)
"""
)

IS_FULL: Final = (
    _READ
    + """
return seen(redis.call('HEXISTS', head, 'full'))
"""
)

# KEYS: marker, claims. ARGV: marker, the name, for how long in ms, how many claims at most, '1' to take it
CLAIM: Final = (
    _START
    + """
local claims, name = KEYS[2], ARGV[2]
local held = redis.call('ZSCORE', claims, name)
if held and tonumber(held) > now then return seen('taken') end
if redis.call('ZCOUNT', claims, '(' .. whole(now), '+inf') >= tonumber(ARGV[4]) then return seen('full') end
if ARGV[5] ~= '1' then return seen('free') end
redis.call('ZADD', claims, whole(now + ARGV[3]), name)
redis.call('ZREMRANGEBYSCORE', claims, '-inf', whole(now))
return 'free'
"""
)

# KEYS: marker, the text
LOOK: Final = (
    _START
    + """
return seen({redis.call('GET', KEYS[2])})
"""
)

# KEYS: marker, the text, the names of all texts. ARGV: marker, the name, '1' if there is an old one, the old one,
# '1' if there is a new one, the new one, for how long in ms, how many texts at most
SWAP: Final = (
    _START
    + """
local text, names, name = KEYS[2], KEYS[3], ARGV[2]
local held = redis.call('GET', text)
local wanted = ARGV[3] == '1' and ARGV[4]
if held ~= wanted then return seen({'other', held}) end
if ARGV[5] ~= '1' then
  redis.call('DEL', text)
  redis.call('ZREM', names, name)
  return {'done'}
end
if not held and redis.call('ZCOUNT', names, '(' .. whole(now), '+inf') >= tonumber(ARGV[8]) then
  return seen({'full'})
end
redis.call('SET', text, ARGV[6])
redis.call('PEXPIREAT', text, whole(now + ARGV[7]))
redis.call('ZADD', names, whole(now + ARGV[7]), name)
redis.call('ZREMRANGEBYSCORE', names, '-inf', whole(now))
return {'done'}
"""
)
