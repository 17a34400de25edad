-- Returns the record of the first entry that begins with ARGV[1]. Between two calls, the record could be deleted.
local entry = redis.call('ZRANGE', KEYS[1], '[' .. ARGV[1], '+', 'BYLEX', 'LIMIT', 0, 1)[1]
if not entry or string.sub(entry, 1, #ARGV[1]) ~= ARGV[1] then return false end
return redis.call('GET', ARGV[2] .. string.sub(entry, #ARGV[1] + 1))
