"""The official clients of OpenAI and Anthropic for Python, told what to ask by lines of JSON:
    python3 official_client.py openai|anthropic PACKAGES
official.py has the questions and the answers; official_client.mjs is the same for Node."""
import json
import sys

VENDOR, PACKAGES = sys.argv[1:]
sys.path.insert(0, PACKAGES)
if VENDOR == "openai":
    import openai as sdk
else:
    import anthropic as sdk


def client_of(url):
    common = {"api_key": "none", "max_retries": 0, "timeout": 110}
    if VENDOR == "openai":
        return sdk.OpenAI(base_url=f"{url}/v1", **common)
    return sdk.Anthropic(base_url=url, **common)


def say(what):
    print(json.dumps(what), flush=True)


def paused(stream, at):
    """Its events; behind `at` of them it says so, and waits for a line."""
    for count, event in enumerate(stream, 1):
        yield event
        if count == at:
            say({"at": at})
            sys.stdin.readline()


def chat(client, stream, at, body):
    if not stream:
        got = client.chat.completions.create(**body)
        return got.choices[0].message.content, got.choices[0].finish_reason, got
    return pieces(client.chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **body), at,
        lambda choice: choice.delta.content)


def completions(client, stream, at, body):
    if not stream:
        got = client.completions.create(**body)
        return got.choices[0].text, got.choices[0].finish_reason, got
    return pieces(client.completions.create(
        stream=True, stream_options={"include_usage": True}, **body), at,
        lambda choice: choice.text)


def pieces(stream, at, text_of):
    text, finish, ids = "", None, set()
    for chunk in paused(stream, at):
        ids.add(chunk.id)
        for choice in chunk.choices:
            text += text_of(choice) or ""
            finish = choice.finish_reason or finish
    assert len(ids) == 1, ids
    return text, finish, chunk


def responses(client, stream, at, body):
    if not stream:
        got = client.responses.create(**body)
        return got.output_text, got.status, got
    text = ""
    for event in paused(client.responses.create(stream=True, **body), at):
        text += event.delta if event.type == "response.output_text.delta" else ""
    assert event.response.output_text == text, event
    return text, event.response.status, event.response


def messages(client, stream, at, body):
    # It takes no temperature of its own any more.
    body["extra_body"] = {"temperature": body.pop("temperature")}
    if not stream:
        got = client.messages.create(**body)
        return got.content[0].text, got.stop_reason, got
    text = ""
    with client.messages.stream(**body) as events:
        for event in paused(events, at):
            if event.type == "content_block_delta":
                text += event.delta.text
        got = events.get_final_message()
    assert [block.text for block in got.content] == [text], got
    return text, got.stop_reason, got


def tokens(usage):
    """(of the prompt, of the answer)"""
    if hasattr(usage, "prompt_tokens"):
        return usage.prompt_tokens, usage.completion_tokens
    return (usage.input_tokens + (getattr(usage, "cache_read_input_tokens", 0) or 0),
            usage.output_tokens)


def ask(client, question):
    if "call" in question:
        method = client
        for name in question["call"].split("."):
            method = getattr(method, name)
        more = question.get("body", {})
        if "file" in more:
            more["file"] = ("a.wav", bytes.fromhex(more["file"]))
        got = method(*question.get("args", []), **more)
        if hasattr(got, "read"):
            return {"bytes": len(got.read())}
        return {"got": got.model_dump(mode="json")}
    text, finish, got = globals()[question["api"]](
        client, question["stream"], question.get("pause", 0), question["body"])
    return {"text": text, "finish": finish, "model": got.model, "tokens": tokens(got.usage)}


for line in iter(sys.stdin.readline, ""):
    asked = json.loads(line)
    try:
        say(ask(client_of(asked["url"]), asked))
    except sdk.APIError as error:
        say({"error": type(error).__name__, "status": getattr(error, "status_code", 0)})
