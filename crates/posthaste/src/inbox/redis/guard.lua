-- The life of a mark: held, and then free again or done. One key per consumer and event, and nothing else is touched.
-- Its value is `state fence token until`, the last in milliseconds of the server's clock. A lease that ran out stays the
-- holder's until somebody else enters, so the fence only grows while the key lives; the clock keeps it growing beyond.
-- ARGV: the verb, the token of the caller, lease and keep in milliseconds, the fence of the caller (0 when it enters).
-- Answers a word and a number: first and the fence, busy and the milliseconds to wait, duplicate, kept, lost.
local verb, token, lease, keep = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(micros / 1000)

local value = redis.call('GET', KEYS[1])
local state, fence, holder, ends
if value then
  state, fence, holder, ends = string.match(value, '^(%l+) (%d+) (%S+) (%d+)$')
  -- Anything else was set by a program that marks with a plain SETNX, and to that program it means: processed.
  state = state or 'done'
end
fence, ends = tonumber(fence or 0), tonumber(ends or 0)

local function write(new_state, new_fence, new_ends)
  local text = string.format('%s %.0f %s %.0f', new_state, new_fence, token, new_ends)
  local life = new_state == 'done' and keep or keep + lease
  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', life))
end

if verb == 'enter' then
  if state == 'done' then return { 'duplicate', 0 } end
  local held = state == 'held'
  if held and holder ~= token and ends > now then return { 'busy', ends - now } end
  -- The same token again: the answer to its first call was lost on the way.
  if not (held and holder == token) then fence = math.max(micros, fence + 1) end
  write('held', fence, now + lease)
  return { 'first', fence }
end

-- A mark that is gone (the server lost it) belongs to nobody else. One of another token does, for ever.
if value and holder ~= token then return { 'lost', 0 } end
if verb == 'finish' then
  write('done', tonumber(ARGV[5]), 0)
elseif state == 'done' then
  return { 'lost', 0 }
elseif verb == 'renew' then
  write('held', tonumber(ARGV[5]), now + lease)
elseif verb == 'release' then
  write('free', tonumber(ARGV[5]), 0)
end
return { 'kept', 0 }
