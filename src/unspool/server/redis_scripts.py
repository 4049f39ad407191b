"""Lua scripts that Redis runs, each as one act: no other client sees or does anything in between.

KEYS are the session, its lock and the set of its owner's sessions by the time of their latest use. All of them may be
run again with the same arguments, as is done when a connection breaks before the answer has come.
"""

from __future__ import annotations

#: Milliseconds since 1970, by the clock of Redis, which all workers share.
NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"

#: ARGV: idle, spare (ms), most, model, digest, state, prefix of sessions, prefix of locks.
#: Gives what became of it (1: kept, 0: no room), how many had expired, how many made room, and in how many
#: milliseconds there may be room.
OPEN = (
    NOW
    + """
local expired, evicted = redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[1]), 0
local most = tonumber(ARGV[3])
if redis.call('ZSCORE', KEYS[3], KEYS[1]) then most = most + 1 end
if redis.call('ZCARD', KEYS[3]) >= most then
    for _, key in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', now - ARGV[2], 'BYSCORE', 'LIMIT', 0, 100)) do
        if redis.call('EXISTS', ARGV[8] .. string.sub(key, #ARGV[7] + 1)) == 0 then
            redis.call('DEL', key)
            redis.call('ZREM', KEYS[3], key)
            evicted = 1
            break
        end
    end
    if evicted == 0 then
        local oldest = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
        return {0, expired, 0, oldest[2] + ARGV[2] - now}
    end
end
redis.call('HSET', KEYS[1], 'model', ARGV[4], 'digest', ARGV[5], 'state', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[3], now, KEYS[1])
return {1, expired, evicted, 0}
"""
)

#: ARGV: idle (ms). Gives model, digest and state, or nothing.
FIND = (
    NOW
    + """
local found = redis.call('HMGET', KEYS[1], 'model', 'digest', 'state')
if not found[1] then return {} end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[3], now, KEYS[1])
return found
"""
)

#: ARGV: idle, lease (ms), holder. Gives model, digest and state, or nothing, or 'busy': another holds the lock.
TAKE = """
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[3] then return {'busy'} end
""" + FIND.replace("return found", "redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])\nreturn found")

#: ARGV: idle (ms), holder, state or '' where it has not changed. Gives 1, or 0: another holds it by now.
#: A session that was deleted meanwhile stays deleted.
GIVE_BACK = (
    NOW
    + """
if redis.call('GET', KEYS[2]) ~= ARGV[2] then
    if ARGV[3] == '' or redis.call('HGET', KEYS[1], 'last') == ARGV[2] then return 1 end
    return 0
end
if redis.call('EXISTS', KEYS[1]) == 1 then
    if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'state', ARGV[3], 'last', ARGV[2]) end
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    redis.call('ZADD', KEYS[3], now, KEYS[1])
end
redis.call('DEL', KEYS[2])
return 1
"""
)

#: Who holds the lock hears of it when it is renewed.
DROP = """
redis.call('ZREM', KEYS[3], KEYS[1])
return redis.call('DEL', KEYS[1])
"""

#: KEYS: a session, its lock and the owner's set, and so on. ARGV: idle, lease (ms), then the holder of each.
#: Gives the numbers of the sessions, from 1 on, that have been deleted.
RENEW = (
    NOW
    + """
local gone = {}
for n = 1, #ARGV - 2 do
    local session, lock, used = KEYS[3 * n - 2], KEYS[3 * n - 1], KEYS[3 * n]
    if redis.call('GET', lock) == ARGV[n + 2] then
        redis.call('PEXPIRE', lock, ARGV[2])
        if redis.call('PEXPIRE', session, ARGV[1]) == 1 then
            redis.call('ZADD', used, now, session)
        else
            table.insert(gone, n)
        end
    end
end
return gone
"""
)
