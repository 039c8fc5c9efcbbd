// The official clients of Anthropic and OpenAI for Node, which call tools
// through a node whose engine knows chats alone: a step prints `ok NAME`, or
// the program ends with 1.
//   node tools_client.mjs anthropic|openai MODULES URL MODEL
// The engine is the stand-in: it calls what it is told to, and a result ends that.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [vendor, modules, url, model] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const options = { apiKey: "none", maxRetries: 0, timeout: 60_000 };
const schema = { type: "object", properties: { town: { type: "string" } }, required: ["town"] };
const asked = { role: "user", content: "call weather" };
const WORDS = 9;
const count = (text) => text.split(" ").length;

async function messages() {
  const client = new (require("@anthropic-ai/sdk").Anthropic)({ ...options, baseURL: url });
  const ask = (messages) => ({ model, max_tokens: WORDS, messages,
    tools: [{ name: "weather", input_schema: schema }] });
  const whole = await client.messages.create(ask([asked]));
  const streamed = await client.messages.stream(ask([asked])).finalMessage();
  for (const got of [whole, streamed]) {
    assert.equal(got.stop_reason, "tool_use");
    assert.deepEqual(got.content.map((b) => [b.type, b.name]), [["tool_use", "weather"]]);
    assert.equal(count(got.content[0].input.town), WORDS);
  }
  assert.deepEqual(whole.content[0].input, streamed.content[0].input);
  const told = [asked, { role: "assistant", content: streamed.content }, { role: "user", content: [
    { type: "tool_result", tool_use_id: streamed.content[0].id, content: "rain" }] }];
  const last = await client.messages.create(ask(told));
  const again = await client.messages.stream(ask(told)).finalMessage();
  assert.deepEqual(last.content, again.content);
  assert.equal(count(last.content[0].text), WORDS);
}

async function responses() {
  const client = new (require("openai").OpenAI)({ ...options, baseURL: `${url}/v1` });
  const ask = (input) => ({ model, max_output_tokens: WORDS, input, tools: [
    { type: "function", name: "weather", strict: false, parameters: schema }] });
  const whole = await client.responses.create(ask([asked]));
  const streamed = await client.responses.stream(ask([asked])).finalResponse();
  for (const got of [whole, streamed]) {
    assert.deepEqual(got.output.map((i) => [i.type, i.name]), [["function_call", "weather"]]);
    assert.equal(count(JSON.parse(got.output[0].arguments).town), WORDS);
  }
  assert.equal(whole.output[0].arguments, streamed.output[0].arguments);
  const told = [asked, ...streamed.output, { type: "function_call_output", output: "rain",
    call_id: streamed.output[0].call_id }];
  const last = await client.responses.create(ask(told));
  const again = await client.responses.stream(ask(told)).finalResponse();
  assert.equal(last.output_text, again.output[0].content[0].text);
  assert.equal(count(last.output_text), WORDS);
}

const step = vendor === "anthropic" ? messages : responses;
await step();
console.log(`ok ${step.name}`);
process.exit(0);
