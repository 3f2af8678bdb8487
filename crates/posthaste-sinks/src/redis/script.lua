-- Adds events to streams, in order. Behind a refused event the rest of its chain is left out.
-- ARGV, for each event: which of KEYS, the number of its chain, how many words follow, and the words of XADD behind the key.
-- Answers how many events were added, and for each of the others its place and the error, or "" if it was left out.
local not_added, refused, event, place, last = {}, {}, 0, 1, #ARGV
while place <= last do
  local chain, words, first = ARGV[place + 1], tonumber(ARGV[place + 2]), place + 3
  event = event + 1
  local why
  if refused[chain] then
    why = ''
  else
    local key = KEYS[tonumber(ARGV[place])]
    local answer = redis.pcall('XADD', key, unpack(ARGV, first, first + words - 1))
    if type(answer) ~= 'string' then
      refused[chain] = true
      why = type(answer) == 'table' and answer.err or 'ERR no id'
    end
  end
  if why then
    not_added[#not_added + 1] = {event, why}
  end
  place = first + words
end
return {event - #not_added, not_added}
