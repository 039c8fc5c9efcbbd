// The official clients of OpenAI and Anthropic for Node, told what to ask by lines of JSON:
//   node official_client.mjs openai|anthropic MODULES
// official.py has the questions and the answers; official_client.py is the same for Python.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";

const [vendor, modules] = process.argv.slice(2);
const load = createRequire(join(modules, "package.json"));
const sdk = vendor === "openai" ? load("openai").OpenAI : load("@anthropic-ai/sdk").Anthropic;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (what) => console.log(JSON.stringify(what));

const clientOf = (url) => new sdk({
  baseURL: vendor === "openai" ? `${url}/v1` : url, apiKey: "none", maxRetries: 0, timeout: 110_000,
});

// Its events; behind `at` of them it says so, and waits for a line.
async function* paused(stream, at) {
  let count = 0;
  for await (const event of stream) {
    yield event;
    if (++count === at) {
      say({ at });
      await lines.next();
    }
  }
}

async function pieces(stream, at, textOf) {
  let [text, finish, last] = ["", null, null];
  const ids = new Set();
  for await (const chunk of paused(stream, at)) {
    ids.add(chunk.id);
    for (const choice of chunk.choices) {
      text += textOf(choice) ?? "";
      finish = choice.finish_reason ?? finish;
    }
    last = chunk;
  }
  assert.equal(ids.size, 1);
  return [text, finish, last];
}

const streamed = { stream: true, stream_options: { include_usage: true } };

const apis = {
  async chat(client, stream, at, body) {
    if (stream) {
      return pieces(await client.chat.completions.create({ ...body, ...streamed }), at,
        (choice) => choice.delta.content);
    }
    const got = await client.chat.completions.create(body);
    return [got.choices[0].message.content, got.choices[0].finish_reason, got];
  },

  async completions(client, stream, at, body) {
    if (stream) {
      return pieces(await client.completions.create({ ...body, ...streamed }), at,
        (choice) => choice.text);
    }
    const got = await client.completions.create(body);
    return [got.choices[0].text, got.choices[0].finish_reason, got];
  },

  async responses(client, stream, at, body) {
    if (!stream) {
      const got = await client.responses.create(body);
      return [got.output_text, got.status, got];
    }
    let [text, last] = ["", null];
    for await (const event of paused(await client.responses.create({ ...body, stream }), at)) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event;
    }
    assert.equal(last.response.output[0].content[0].text, text);
    return [text, last.response.status, last.response];
  },

  async messages(client, stream, at, body) {
    if (!stream) {
      const got = await client.messages.create(body);
      return [got.content[0].text, got.stop_reason, got];
    }
    const events = client.messages.stream(body);
    let text = "";
    for await (const event of paused(events, at)) {
      if (event.type === "content_block_delta") text += event.delta.text;
    }
    const got = await events.finalMessage();
    assert.deepEqual(got.content.map((block) => block.text), [text]);
    return [text, got.stop_reason, got];
  },
};

// Of the prompt, of the answer.
const tokens = (usage) => (usage.prompt_tokens === undefined ?
  [usage.input_tokens + (usage.cache_read_input_tokens ?? 0), usage.output_tokens] :
  [usage.prompt_tokens, usage.completion_tokens]);

async function ask(client, question) {
  if (question.call) {
    const path = question.call.split(".");
    const owner = path.slice(0, -1).reduce((thing, name) => thing[name], client);
    const more = question.body ?? {};
    if (more.file) more.file = await load("openai").toFile(Buffer.from(more.file, "hex"), "a.wav");
    const words = [...(question.args ?? []), ...(question.body ? [more] : [])];
    const got = await owner[path.at(-1)](...words);
    if (got.arrayBuffer) return { bytes: (await got.arrayBuffer()).byteLength };
    return { got: got.data && got.object === "list" ? { ...got, data: got.data } : got };
  }
  const [text, finish, got] = await apis[question.api](
    client, question.stream, question.pause ?? 0, question.body);
  return { text, finish, model: got.model, tokens: tokens(got.usage) };
}

for (;;) {
  const { value, done } = await lines.next();
  if (done) break;
  const question = JSON.parse(value);
  try {
    say(await ask(clientOf(question.url), question));
  } catch (error) {
    if (!(error instanceof sdk.APIError)) throw error;
    say({ error: error.constructor.name, status: error.status ?? 0 });
  }
}
