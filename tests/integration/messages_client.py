"""The official Anthropic client for Python against a node whose engines have no /v1/messages:
each step prints `ok NAME`, or the program ends with 1.
    python3 messages_client.py PACKAGES URL MODEL
The engine answers as test_anthropic.py says."""
import sys

PACKAGES, URL, MODEL = sys.argv[1:]
sys.path.insert(0, PACKAGES)
import anthropic  # noqa: E402  pylint: disable=wrong-import-position

client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0, timeout=60)
TOOLS = [{"name": "weather", "description": "of a town", "input_schema": {
    "type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}]


def ask(**more):
    return {"model": MODEL, "max_tokens": 50,
            "messages": [{"role": "user", "content": "hello"}], **more}


def message():
    got = client.messages.create(**ask(system="Be kind.", stop_sequences=["END"]))
    assert [(b.type, b.text) for b in got.content] == [("text", "Good day.")], got
    assert (got.stop_reason, got.usage.input_tokens, got.usage.cache_read_input_tokens,
            got.usage.output_tokens) == ("end_turn", 4, 8, 3), got


def streamed_message():
    with client.messages.stream(**ask()) as stream:
        assert list(stream.text_stream) == ["Good ", "day."]
        got = stream.get_final_message()
    assert (got.stop_reason, got.usage.output_tokens) == ("end_turn", 3), got


def tool_and_its_result():
    first = client.messages.create(**ask(tools=TOOLS))
    use = first.content[0]
    assert (first.stop_reason, use.type, use.name, use.input) == (
        "tool_use", "tool_use", "weather", {"town": "Oslo"}), first
    second = client.messages.create(**ask(tools=TOOLS, messages=[
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": first.content},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": use.id, "content": "rain"}]}]))
    assert [b.text for b in second.content] == ["It says rain."], second


def streamed_tool():
    with client.messages.stream(**ask(tools=TOOLS)) as stream:
        got = stream.get_final_message()
    assert [b.type for b in got.content] == ["thinking", "tool_use"], got
    assert got.content[1].input == {"town": "Oslo"}, got


def count():
    got = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hello"}])
    assert got.input_tokens == 12, got


def errors():
    try:
        client.messages.create(**ask(messages=[{"role": "user", "content": "too long"}]))
        raise AssertionError("let through")
    except anthropic.BadRequestError as error:
        assert "longer than the model" in str(error), error
    try:
        with client.messages.stream(**ask(messages=[{"role": "user", "content": "die"}])) as stream:
            stream.get_final_message()
        raise AssertionError("let through")
    except anthropic.APIError as error:
        assert "ended too early" in str(error), error


for step in (message, streamed_message, tool_and_its_result, streamed_tool, count, errors):
    step()
    print("ok", step.__name__, flush=True)
print("done 6")
