// The official OpenAI client for Node against a node whose engines have no
// /v1/responses: each named step prints `ok NAME`, or the program ends with 1.
//   node responses_client.mjs MODULES URL MODEL
// The engine answers as test_anthropic.py says.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, url, model] = process.argv.slice(2);
const OpenAI = createRequire(join(modules, "package.json"))("openai").OpenAI;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const tools = [{ type: "function", name: "weather", strict: false, parameters: {
  type: "object", properties: { town: { type: "string" } } } }];
const refused = async (promise) => promise.then(() => assert.fail("let through"), (e) => e);

const steps = {
  async "a response"() {
    const got = await client.responses.create({ model, input: "hello", instructions: "Be kind." });
    assert.equal(got.output_text, "Good day.");
    assert.equal(got.status, "completed");
    assert.equal(got.usage.input_tokens_details.cached_tokens, 8);
  },

  async "a streamed response"() {
    let text = "";
    let last = null;
    for await (const event of await client.responses.create({ model, input: "hello", stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event;
    }
    assert.equal(text, "Good day.");
    assert.equal(last.type, "response.completed");
    assert.equal(last.response.usage.output_tokens, 3);
  },

  async "a function and its output, streamed"() {
    const first = await client.responses.stream({ model, input: "hello", tools }).finalResponse();
    const call = first.output.find((item) => item.type === "function_call");
    assert.deepEqual([call.name, JSON.parse(call.arguments)], ["weather", { town: "Oslo" }]);
    const second = await client.responses.create({ model, tools, input: [
      { role: "user", content: "hello" }, ...first.output,
      { type: "function_call_output", call_id: call.call_id, output: "rain" }] });
    assert.equal(second.output_text, "It says rain.");
  },

  async "errors become the client's exceptions"() {
    let error = await refused(client.responses.create({ model, input: "too long" }));
    assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    error = await refused(client.responses.create({ model, input: "a", previous_response_id: "resp_1" }));
    assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    assert.equal(error.code, "not_translatable");
    error = await refused((async () => {
      for await (const _ of await client.responses.create({ model, input: "die", stream: true }));
    })());
    assert.ok(error instanceof OpenAI.APIError, String(error));
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
  } catch (error) {
    console.error(`failed: ${name}`, error);
    process.exit(1);
  }
  console.log(`ok ${name}`);
}
console.log(`done ${Object.keys(steps).length}`);
process.exit(0);
