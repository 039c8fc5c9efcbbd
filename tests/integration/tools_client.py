"""The official clients of Anthropic and OpenAI for Python, which call tools through a node whose
engine knows chats alone: each step prints `ok NAME`, or the program ends with 1.
    python3 tools_client.py anthropic|openai PACKAGES URL MODEL
The engine is the stand-in: it calls what it is told to, and a result ends that."""
import json
import sys

VENDOR, PACKAGES, URL, MODEL = sys.argv[1:]
sys.path.insert(0, PACKAGES)
SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
ASKED = {"role": "user", "content": "call weather"}
WORDS = 9


def messages():
    import anthropic  # pylint: disable=import-outside-toplevel
    client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0, timeout=60)
    more = {"model": MODEL, "max_tokens": WORDS,
            "tools": [{"name": "weather", "input_schema": SCHEMA}]}
    whole = client.messages.create(messages=[ASKED], **more)
    with client.messages.stream(messages=[ASKED], **more) as stream:
        streamed = stream.get_final_message()
    for got in (whole, streamed):
        assert (got.stop_reason, got.content[0].type, got.content[0].name) == (
            "tool_use", "tool_use", "weather"), got
        assert len(got.content[0].input["town"].split()) == WORDS, got
        assert got.usage.output_tokens == WORDS, got
    assert whole.content[0].input == streamed.content[0].input, (whole, streamed)
    told = [ASKED, {"role": "assistant", "content": whole.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": whole.content[0].id, "content": "rain"}]}]
    last = client.messages.create(messages=told, **more)
    with client.messages.stream(messages=told, **more) as stream:
        text = "".join(stream.text_stream)
    assert [b.text for b in last.content] == [text] and len(text.split()) == WORDS, last
    forced = client.messages.create(messages=[{"role": "user", "content": "hello"}],
                                    tool_choice={"type": "tool", "name": "weather"}, **more)
    assert forced.content[0].name == "weather", forced


def responses():
    import openai  # pylint: disable=import-outside-toplevel
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0, timeout=60)
    more = {"model": MODEL, "max_output_tokens": WORDS, "tools": [
        {"type": "function", "name": "weather", "strict": False, "parameters": SCHEMA}]}
    whole = client.responses.create(input=[ASKED], **more)
    with client.responses.stream(input=[ASKED], **more) as stream:
        parts = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
        streamed = stream.get_final_response()
    for got in (whole, streamed):
        assert (got.status, got.output[0].type, got.output[0].name) == (
            "completed", "function_call", "weather"), got
        assert len(json.loads(got.output[0].arguments)["town"].split()) == WORDS, got
    assert "".join(parts) == whole.output[0].arguments, parts
    told = [ASKED, whole.output[0], {"type": "function_call_output", "output": "rain",
                                     "call_id": whole.output[0].call_id}]
    last = client.responses.create(input=told, **more)
    with client.responses.stream(input=told, **more) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert last.output_text == text and len(text.split()) == WORDS, last
    forced = client.responses.create(input="hello", tool_choice="required", **more)
    assert forced.output[0].name == "weather", forced


step = messages if VENDOR == "anthropic" else responses
step()
print("ok", step.__name__)
