// The official clients of OpenAI and Anthropic against a limited node: each
// named step prints `ok NAME`, or the program ends with 1 and says which failed.
//   node limits_client.mjs OPENAI ANTHROPIC URL MODEL STEP
//     OPENAI, ANTHROPIC  directories whose node_modules hold the packages
//     URL                of the serving port, without /v1
//     STEP               told: the node lets three requests through, and no more
//                        openai_retries, anthropic_retries: one at a time
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [openaiModules, anthropicModules, url, model, step] = process.argv.slice(2);
const OpenAI = createRequire(join(openaiModules, "package.json"))("openai").OpenAI;
const Anthropic = createRequire(join(anthropicModules, "package.json"))("@anthropic-ai/sdk")
  .Anthropic;
const options = { apiKey: "none", timeout: 60_000 };
const openai = (maxRetries) => new OpenAI({ ...options, baseURL: `${url}/v1`, maxRetries });
const anthropic = (maxRetries) => new Anthropic({ ...options, baseURL: url, maxRetries });
const messages = [{ role: "user", content: "hello" }];
const chat = (client) => client.chat.completions.create({ model, messages, max_tokens: 12 });
const talk = (client) => client.messages.create({ model, messages, max_tokens: 12 });

async function refusal(promise, kind) {
  const error = await promise.then(() => assert.fail("it was let through"), (e) => e);
  assert.ok(error instanceof kind, String(error));
  assert.equal(error.status, 429);
  assert.ok(Number(error.headers.get("retry-after")) >= 1);
  return error;
}

const told = {
  async "OpenAI's client reads what is left"() {
    for (const left of ["2", "1"]) {
      const { data, response } = await chat(openai(0)).withResponse();
      assert.equal(data.choices[0].message.content, "x");
      assert.equal(response.headers.get("x-ratelimit-limit-requests"), "3");
      assert.equal(response.headers.get("x-ratelimit-remaining-requests"), left);
      assert.match(response.headers.get("x-ratelimit-reset-requests"), /^\d+(ms|s|m\d+s)$/);
    }
  },
  async "Anthropic's client reads what is left"() {
    const { data, response } = await talk(anthropic(0)).withResponse();
    assert.equal(data.content[0].text, "x");
    assert.equal(response.headers.get("anthropic-ratelimit-requests-limit"), "3");
    assert.equal(response.headers.get("anthropic-ratelimit-requests-remaining"), "0");
    assert.ok(Date.parse(response.headers.get("anthropic-ratelimit-requests-reset")) > Date.now());
  },
  async "OpenAI's client knows its error"() {
    const error = await refusal(chat(openai(0)), OpenAI.RateLimitError);
    assert.equal(error.code, "rate_limit_exceeded");
    assert.equal(error.type, "rate_limit_error");
    assert.equal(error.headers.get("x-ratelimit-remaining-requests"), "0");
  },
  async "Anthropic's client knows its error"() {
    const error = await refusal(talk(anthropic(0)), Anthropic.RateLimitError);
    assert.equal(error.error.error.type, "rate_limit_error");
    assert.equal(error.headers.get("anthropic-ratelimit-requests-remaining"), "0");
  },
};

const openai_retries = {
  async "OpenAI's client comes again by itself"() {
    const both = await Promise.all([chat(openai(9)), chat(openai(9))]);
    assert.deepEqual(both.map((one) => one.choices[0].message.content), ["x", "x"]);
  },
};

const anthropic_retries = {
  async "Anthropic's client comes again by itself"() {
    const both = await Promise.all([talk(anthropic(9)), talk(anthropic(9))]);
    assert.deepEqual(both.map((one) => one.content[0].text), ["x", "x"]);
  },
};

for (const [name, run] of Object.entries({ told, openai_retries, anthropic_retries }[step])) {
  try {
    await run();
  } catch (error) {
    console.log(`not ok ${name}: ${error.stack}`);
    process.exit(1);
  }
  console.log(`ok ${name}`);
}
