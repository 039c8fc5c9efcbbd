// The official OpenAI client for Node against a node: each named step prints
// `ok NAME`, or the program ends with 1 and says which step failed.
//   node openai_client.mjs MODULES URL MODEL
//     MODULES  directory whose node_modules holds the package `openai`
//     URL      of the serving port, without /v1
//     MODEL    a model that the workers serve, with a slash in its name
// It reads standard input in one place: after `streaming` is printed it waits
// for a line, so that the test can look at the engines before the abort.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { once } from "node:events";
import { join } from "node:path";

const [modules, url, model] = process.argv.slice(2);
const OpenAI = createRequire(join(modules, "package.json"))("openai").OpenAI;
const STREAMS = 20;
const options = { baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 };
const client = new OpenAI(options);

const chat = (content, more = {}) => ({
  model, messages: [{ role: "user", content }], max_tokens: 12, ...more,
});

async function read(stream) {
  const seen = { text: "", finish: null, usage: null };
  for await (const chunk of stream) {
    seen.text += chunk.choices[0]?.delta?.content ?? "";
    seen.finish = chunk.choices[0]?.finish_reason ?? seen.finish;
    seen.usage = chunk.usage ?? seen.usage;
  }
  return seen;
}

async function refused(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("this request should have been refused");
}

const steps = {
  async "models.list"() {
    const names = [];
    for await (const one of client.models.list()) names.push(one.id);
    assert.deepEqual(names, [model]); // of two workers, once
  },

  async "models.retrieve of a name with a slash"() {
    const one = await client.models.retrieve(model);
    assert.equal(one.id, model);
    assert.equal(one.object, "model");
  },

  async "chat"() {
    const { data, response } = await client.chat.completions
      .create(chat("hello")).withResponse();
    assert.equal(data.object, "chat.completion");
    assert.equal(data.choices[0].message.role, "assistant");
    assert.equal(data.choices[0].message.content.split(" ").length, 12);
    assert.equal(data.usage.completion_tokens, 12);
    assert.match(response.headers.get("x-kvasir-overlap"), /^\d+\/\d+$/);
    assert.equal(data._request_id, response.headers.get("x-request-id"));
  },

  async "chat, streamed, with usage"() {
    const whole = await client.chat.completions.create(chat("tell me"));
    const seen = await read(await client.chat.completions.create(
      chat("tell me", { stream: true, stream_options: { include_usage: true } })));
    assert.equal(seen.text, whole.choices[0].message.content);
    assert.equal(seen.finish, "length");
    assert.equal(seen.usage.completion_tokens, 12);
  },

  async "completions"() {
    const body = { model, prompt: "Once upon a time", max_tokens: 5 };
    const whole = await client.completions.create(body);
    assert.equal(whole.object, "text_completion");
    let text = "";
    for await (const chunk of await client.completions.create({ ...body, stream: true })) {
      text += chunk.choices[0]?.text ?? "";
    }
    assert.equal(text, whole.choices[0].text);
    assert.notEqual(text, "");
  },

  async "embeddings"() {
    // The client asks for base64 by itself and decodes it.
    const answer = await client.embeddings.create({ model, input: ["one", "two"] });
    assert.deepEqual(answer.data.map((one) => one.index), [0, 1]);
    assert.equal(typeof answer.data[0].embedding[0], "number");
    const floats = await client.embeddings.create(
      { model, input: ["one", "two"], encoding_format: "float" });
    assert.deepEqual(answer.data[1].embedding.map(Math.fround),
      floats.data[1].embedding.map(Math.fround));
    assert.notDeepEqual(answer.data[0].embedding, answer.data[1].embedding);
  },

  async "tools, streamed or not"() {
    const tools = [{ type: "function", function: { name: "weather", parameters: {
      type: "object", properties: { town: { type: "string" } } } } }];
    const body = chat("call weather", { tools });
    const whole = (await client.chat.completions.create(body)).choices[0];
    assert.equal(whole.finish_reason, "tool_calls");
    const call = whole.message.tool_calls[0];
    assert.equal(JSON.parse(call.function.arguments).town.split(" ").length, 12);
    const streamed = (await client.chat.completions.stream(body).finalChatCompletion()).choices[0];
    assert.deepEqual(streamed.message.tool_calls[0].function.arguments, call.function.arguments);
    body.messages.push(whole.message,
      { role: "tool", tool_call_id: call.id, content: "rain" });
    const last = (await client.chat.completions.create(body)).choices[0];
    assert.equal(last.message.content.split(" ").length, 12);
  },

  async "audio, in and out"() {
    const speech = await client.audio.speech.create(
      { model, input: "say this", voice: "alloy", response_format: "wav" });
    const sound = Buffer.from(await speech.arrayBuffer());
    assert.equal(sound.subarray(0, 4).toString(), "RIFF");
    const heard = async (bytes) => (await client.audio.transcriptions.create(
      { model, file: await OpenAI.toFile(bytes, "a.wav") })).text;
    const text = await heard(sound);
    assert.notEqual(text, "");
    assert.equal(await heard(sound), text);
    assert.notEqual(await heard(Buffer.concat([sound, sound])), text);
    const much = Buffer.alloc(3 << 20, sound); // goes to the worker while it comes
    assert.equal(await heard(much), await heard(much));
  },

  async "errors become the client's exceptions"() {
    const missing = await refused(client.chat.completions.create({ ...chat("hi"), model: "no" }));
    assert.ok(missing instanceof OpenAI.NotFoundError, `${missing}`);
    assert.equal(missing.status, 404);
    assert.equal(missing.code, "model_not_found");
    assert.notEqual(missing.requestID ?? "", "");

    const retrieved = await refused(client.models.retrieve("no/such"));
    assert.ok(retrieved instanceof OpenAI.NotFoundError, `${retrieved}`);
    assert.equal(retrieved.code, "model_not_found");

    // From the engine, passed through.
    const long = await refused(client.chat.completions.create(chat("hi", { max_tokens: 40000 })));
    assert.ok(long instanceof OpenAI.BadRequestError, `${long}`);
    assert.equal(long.code, "context_length_exceeded");
    const streamed = await refused(client.chat.completions.create(
      chat("hi", { max_tokens: 40000, stream: true })));
    assert.ok(streamed instanceof OpenAI.BadRequestError, `${streamed}`);
  },

  async "parallel streams"() {
    const opened = await Promise.all(Array.from({ length: STREAMS }, (_, i) =>
      client.chat.completions.create(chat(`stream ${i}`, { stream: true, max_tokens: 40 }))));
    const seen = await Promise.all(opened.map(read));
    for (const one of seen) {
      assert.equal(one.finish, "length");
      assert.equal(one.text.split(" ").length, 40);
    }
    assert.equal(new Set(seen.map((one) => one.text)).size, STREAMS);
  },

  async "abort in the middle"() {
    const stream = await client.chat.completions.create(
      chat("without end", { stream: true, max_tokens: 30000 }));
    let chunks = 0;
    for await (const _ of stream) {
      if (++chunks == 3) {
        console.log("streaming");
        await once(process.stdin, "data");
        stream.controller.abort();
      }
    }
    assert.ok(chunks >= 3);
    const still = await client.chat.completions.create(chat("and still here"));
    assert.equal(still.usage.completion_tokens, 12);
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
