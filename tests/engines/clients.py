"""The official clients of OpenAI and Anthropic through a node."""
import dataclasses
import typing

import anthropic
import openai

import asks
import engine as engines

SYSTEM = "You are a router's test. " + " ".join(f"Rule {i}: count the blocks." for i in range(30))
QUESTION = [{"role": "user", "content": "How many blocks are there in this prompt?"}]
CHAT = [{"role": "system", "content": SYSTEM}, *QUESTION]


@dataclasses.dataclass
class Call:
    url: str
    name: str
    look: typing.Callable  # is told (path, body) before they are sent

    def openai(self):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)


def send(call, create, path, body):
    """(headers of the answer, its usage)"""
    call.look(path, body)
    raw = create(**body, extra_headers={"x-request-id": call.name})
    parsed = raw.parse()
    usage = None
    if body.get("stream"):
        for event in parsed:
            usage = asks.usage_of(event.model_dump()) or usage
    else:
        usage = asks.usage_of(parsed.model_dump())
    return raw.headers, usage


def chat(call, **more):
    return send(call, call.openai().chat.completions.with_raw_response.create, asks.CHAT, {
        "model": engines.MODEL, "messages": CHAT, "max_tokens": 4, **more})


def completion(call):
    return send(call, call.openai().completions.with_raw_response.create, asks.TEXT, {
        "model": engines.MODEL, "prompt": "Once. " + SYSTEM, "max_tokens": 4})


def response(call):
    return send(call, call.openai().responses.with_raw_response.create, asks.RESPONSES, {
        "model": engines.MODEL, "input": "A response. " + SYSTEM, "max_output_tokens": 4})


def message(call, **more):
    client = anthropic.Anthropic(base_url=call.url, api_key="none", max_retries=0)
    return send(call, client.messages.with_raw_response.create, asks.MESSAGES, {
        "model": engines.MODEL, "system": "Messages. " + SYSTEM, "messages": QUESTION,
        "max_tokens": 4, **more})


CALLS = {
    "openai: chat": chat,
    "openai: chat, stream": lambda call: chat(
        call, stream=True, stream_options={"include_usage": True}),
    "openai: chat, plain stream": lambda call: chat(call, stream=True),
    "openai: completion": completion,
    "openai: response": response,
    "anthropic: message": message,
    "anthropic: message, stream": lambda call: message(call, stream=True),
}
