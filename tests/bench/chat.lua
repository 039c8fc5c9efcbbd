-- What wrk sends in the proxy benchmark: chats of ~4 KB whose prefixes grow.
--
--   wrk ... -s chat.lua URL -- SEED [CONTENT-TYPE [KEY]]
--
-- 64 conversations under 8 system prompts take turns; each goes through 6
-- turns, and a turn's body is the one before it with an answer and a question
-- behind it, as a client of a chat sends it. After its last turn a conversation
-- starts over as a new one: its id, in the first user message, counts up. So a
-- router that learns prefixes finds the system prompt always, the earlier turns
-- five times in six, and always something new to learn.
--
-- Bodies are made before the load starts; only the eight digits of the id are
-- put in per request (measured: 0.2 us of the 7 that a direct request costs).

local SYSTEMS, CONVERSATIONS, TURNS = 8, 64, 6
local SYSTEM_BYTES, FIRST_BYTES, TURN_BYTES = 1200, 1800, 170
local ID = "00000000"

local seed, at, epoch = 1, 0, 0
local templates = {}

-- Words that differ by (kind, number) and never repeat a neighbour's text.
local function words(kind, number, bytes)
   local x = (kind * 7919 + number * 104729 + 12345) % 2147483647
   local out, len = {}, 0
   while len < bytes do
      x = (x * 16807) % 2147483647
      local word = string.format("%06x", x % 16777216)
      out[#out + 1] = word
      len = len + #word + 1
   end
   return table.concat(out, " "):sub(1, bytes)
end

local function body(conversation, turn)
   local out = {
      '{"model":"bench","max_tokens":64,"messages":[',
      '{"role":"system","content":"', words(1, conversation % SYSTEMS, SYSTEM_BYTES), '"},',
      '{"role":"user","content":"ID', ID, " ", words(2, conversation, FIRST_BYTES), '"}',
   }
   for t = 2, turn do
      local number = conversation * TURNS + t
      out[#out + 1] = ',{"role":"assistant","content":"' .. words(3, number, TURN_BYTES) .. '"}'
      out[#out + 1] = ',{"role":"user","content":"' .. words(4, number, TURN_BYTES) .. '"}'
   end
   out[#out + 1] = '],"temperature":0.7,"top_p":0.95,"stream":false}'
   return table.concat(out)
end

local function template(conversation, turn, content_type, key)
   local headers = { ["Host"] = "bench", ["Content-Type"] = content_type }
   if key ~= "" then
      headers["Authorization"] = "Bearer " .. key
   end
   -- On a path for chats a node reads what is no form.
   local path = content_type == "text/plain" and "/v1/rerank" or "/v1/chat/completions"
   local request = wrk.format("POST", path, headers, body(conversation, turn))
   local id_at = request:find("ID" .. ID, 1, true) + 2
   return { head = request:sub(1, id_at - 1), tail = request:sub(id_at + #ID) }
end

function init(args)
   seed = tonumber(args[1]) or 1
   for turn = 1, TURNS do
      for conversation = 1, CONVERSATIONS do
         templates[#templates + 1] = template(conversation, turn,
            args[2] or "application/json", args[3] or "")
      end
   end
end

function request()
   at = at + 1
   if at > #templates then
      at, epoch = 1, epoch + 1
   end
   local t = templates[at]
   return t.head .. string.format("%08d", seed * 65536 + epoch) .. t.tail
end

function done(summary, latency)
   local e = summary.errors
   io.write(string.format(
      "bench requests=%d us=%d p50_us=%d p99_us=%d errors=%d\n",
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      e.connect + e.read + e.write + e.status + e.timeout))
end
