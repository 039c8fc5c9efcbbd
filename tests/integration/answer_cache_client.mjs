// The official OpenAI client for Node against a node with a cache of answers:
// the same question twice, whole and as a stream.
//   node answer_cache_client.mjs MODULES URL MODEL
//     MODULES  directory whose node_modules holds the package `openai`
//     URL      of the serving port, without /v1
//     MODEL    a model that the workers serve
// Prints what the node said of each answer, or ends with 1.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, url, model] = process.argv.slice(2);
const OpenAI = createRequire(join(modules, "package.json"))("openai").OpenAI;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const asked = {
  model, messages: [{ role: "user", content: "again" }], max_tokens: 12, temperature: 0, seed: 7,
};

async function whole() {
  const { data, response } = await client.chat.completions.create(asked).withResponse();
  return [response.headers.get("x-cache"), data];
}

async function streamed() {
  const { data, response } = await client.chat.completions.create({
    ...asked, stream: true, stream_options: { include_usage: true },
  }).withResponse();
  const chunks = [];
  for await (const chunk of data) chunks.push(chunk);
  assert.equal(chunks.at(-1).usage.completion_tokens, 12);
  return [response.headers.get("x-cache"), chunks];
}

for (const ask of [whole, streamed]) {
  const [first, answer] = await ask();
  const [second, again] = await ask();
  assert.deepEqual(again, answer);
  console.log(ask.name, first, second);
}
