"""The official clients of OpenAI and Anthropic through a node. Each call
returns (path, body as a dictionary, headers of the answer, its usage)."""
import anthropic
import openai

import asks
import engine as engines

SYSTEM = "You are a router's test. " + " ".join(f"Rule {i}: count the blocks." for i in range(30))
QUESTION = [{"role": "user", "content": "How many blocks are there in this prompt?"}]
CHAT = [{"role": "system", "content": SYSTEM}, *QUESTION]


def openai_client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)


def of_openai(create, path, body, name):
    raw = create(**body, extra_headers={"x-request-id": name})
    parsed = raw.parse()
    usage = None
    if body.get("stream"):
        for event in parsed:
            usage = asks.usage_of(event.model_dump()) or usage
    else:
        usage = asks.usage_of(parsed.model_dump())
    return path, body, raw.headers, usage


def chat(url, name, **more):
    create = openai_client(url).chat.completions.with_raw_response.create
    return of_openai(create, asks.CHAT, {
        "model": engines.MODEL, "messages": CHAT, "max_tokens": 4, **more}, name)


def completion(url, name):
    create = openai_client(url).completions.with_raw_response.create
    return of_openai(create, asks.TEXT, {
        "model": engines.MODEL, "prompt": "Once. " + SYSTEM, "max_tokens": 4}, name)


def response(url, name):
    create = openai_client(url).responses.with_raw_response.create
    return of_openai(create, asks.RESPONSES, {
        "model": engines.MODEL, "input": "A response. " + SYSTEM, "max_output_tokens": 4}, name)


def message(url, name, **more):
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    return of_openai(client.messages.with_raw_response.create, asks.MESSAGES, {
        "model": engines.MODEL, "system": "Messages. " + SYSTEM, "messages": QUESTION,
        "max_tokens": 4, **more}, name)


CALLS = {
    "openai: chat": chat,
    "openai: chat, stream": lambda url, name: chat(
        url, name, stream=True, stream_options={"include_usage": True}),
    "openai: chat, plain stream": lambda url, name: chat(url, name, stream=True),
    "openai: completion": completion,
    "openai: response": response,
    "anthropic: message": message,
    "anthropic: message, stream": lambda url, name: message(url, name, stream=True),
}
