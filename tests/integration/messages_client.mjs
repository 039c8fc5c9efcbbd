// The official Anthropic client for Node against a node whose engines have no
// /v1/messages: each named step prints `ok NAME`, or the program ends with 1.
//   node messages_client.mjs MODULES URL MODEL
//     MODULES  directory whose node_modules holds the package
//     URL      of the serving port
// The engine answers as test_anthropic.py says.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, url, model] = process.argv.slice(2);
const Anthropic = createRequire(join(modules, "package.json"))("@anthropic-ai/sdk").Anthropic;
const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const user = (content) => ({ role: "user", content });
const ask = (more = {}) => ({ model, max_tokens: 50, messages: [user("hello")], ...more });
const tools = [{ name: "weather", description: "of a town", input_schema: {
  type: "object", properties: { town: { type: "string" } }, required: ["town"] } }];

const steps = {
  async "a message"() {
    const got = await client.messages.create(ask({
      system: [{ type: "text", text: "Be kind.", cache_control: { type: "ephemeral" } }],
      stop_sequences: ["END"], temperature: 0 }));
    assert.equal(got.type, "message");
    assert.equal(got.role, "assistant");
    assert.deepEqual(got.content.map((b) => [b.type, b.text]), [["text", "Good day."]]);
    assert.equal(got.stop_reason, "end_turn");
    assert.equal(got.usage.input_tokens, 4);
    assert.equal(got.usage.cache_read_input_tokens, 8);
    assert.equal(got.usage.output_tokens, 3);
  },

  async "a streamed message"() {
    const stream = client.messages.stream(ask());
    const texts = [];
    stream.on("text", (text) => texts.push(text));
    const got = await stream.finalMessage();
    assert.deepEqual(texts, ["Good ", "day."]);
    assert.deepEqual(got.content.map((b) => b.text), ["Good day."]);
    assert.equal(got.stop_reason, "end_turn");
    assert.equal(got.usage.output_tokens, 3);
  },

  async "raw events"() {
    const seen = [];
    for await (const event of await client.messages.create(ask({ stream: true }))) seen.push(event.type);
    assert.deepEqual(seen.filter((t) => t !== "ping"), ["message_start", "content_block_start",
      "content_block_delta", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
  },

  async "a tool and its result"() {
    const first = await client.messages.create(ask({ tools, tool_choice: { type: "any" } }));
    assert.equal(first.stop_reason, "tool_use");
    const use = first.content.find((b) => b.type === "tool_use");
    assert.deepEqual([use.name, use.input], ["weather", { town: "Oslo" }]);
    const second = await client.messages.create(ask({ tools, messages: [user("hello"),
      { role: "assistant", content: first.content },
      user([{ type: "tool_result", tool_use_id: use.id, content: "rain" }])] }));
    assert.deepEqual(second.content.map((b) => b.text), ["It says rain."]);
  },

  async "a streamed tool, with thoughts"() {
    const got = await client.messages.stream(ask({ tools, thinking: { type: "adaptive" } })).finalMessage();
    assert.deepEqual(got.content.map((b) => b.type), ["thinking", "tool_use"]);
    assert.equal(got.content[0].thinking, "hm");
    assert.deepEqual(got.content[1].input, { town: "Oslo" });
    assert.equal(got.stop_reason, "tool_use");
  },

  async "a picture"() {
    const got = await client.messages.create(ask({ messages: [user([
      { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } },
      { type: "text", text: "what is it?" }])] }));
    assert.deepEqual(got.content.map((b) => b.text), ["I see data:image/png;base64,iVBORw0KGgo="]);
  },

  async "a count of tokens"() {
    const got = await client.messages.countTokens({ model, messages: [user("hello")] });
    assert.equal(got.input_tokens, 12);
  },

  async "errors become the client's exceptions"() {
    const refused = async (promise) => promise.then(() => assert.fail("let through"), (e) => e);
    let error = await refused(client.messages.create(ask({ messages: [user("too long")] })));
    assert.ok(error instanceof Anthropic.BadRequestError, String(error));
    assert.equal(error.error.error.type, "invalid_request_error");
    assert.match(error.message, /longer than the model/);
    error = await refused(client.messages.create(ask({ model: "no" })));
    assert.ok(error instanceof Anthropic.NotFoundError, String(error));
    error = await refused(client.messages.stream(ask({ messages: [user("die")] })).finalMessage());
    assert.ok(error instanceof Anthropic.APIError, String(error));
    assert.match(error.message, /ended too early/);
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
