-- Adds events to streams, in order. Behind a refused event the rest of its chain is left out.
-- ARGV, for each event: which of KEYS, the number of its chain, how many words follow, and the words of XADD behind the key.
-- Answers for each event: the id of its entry, or "-" and the error, or "" if it was left out.
local answers, refused, place = {}, {}, 1
while place <= #ARGV do
  local key, chain, words = KEYS[tonumber(ARGV[place])], ARGV[place + 1], tonumber(ARGV[place + 2])
  local first = place + 3
  if refused[chain] then
    answers[#answers + 1] = ''
  else
    local answer = redis.pcall('XADD', key, unpack(ARGV, first, first + words - 1))
    if type(answer) == 'table' and answer.err then
      refused[chain] = true
      answer = '-' .. answer.err
    end
    answers[#answers + 1] = answer
  end
  place = first + words
end
return answers
