"""The official OpenAI client for Python against a node whose engines have no /v1/responses: each
step prints `ok NAME`, or the program ends with 1.
    python3 responses_client.py PACKAGES URL MODEL
The engine answers as test_anthropic.py says."""
import json
import sys

PACKAGES, URL, MODEL = sys.argv[1:]
sys.path.insert(0, PACKAGES)
import openai  # noqa: E402  pylint: disable=wrong-import-position

client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0, timeout=60)
TOOLS = [{"type": "function", "name": "weather", "strict": False, "parameters": {
    "type": "object", "properties": {"town": {"type": "string"}}}}]


def response():
    got = client.responses.create(model=MODEL, input="hello", instructions="Be kind.")
    assert (got.output_text, got.status, got.usage.input_tokens_details.cached_tokens) == (
        "Good day.", "completed", 8), got


def streamed_response():
    with client.responses.stream(model=MODEL, input="hello") as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        got = stream.get_final_response()
    assert (text, got.output_text, got.usage.output_tokens) == ("Good day.", "Good day.", 3), got


def function_and_its_output():
    first = client.responses.create(model=MODEL, input="hello", tools=TOOLS)
    call = first.output[0]
    assert (call.name, json.loads(call.arguments)) == ("weather", {"town": "Oslo"}), first
    second = client.responses.create(model=MODEL, tools=TOOLS, input=[
        {"role": "user", "content": "hello"}, call,
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}])
    assert second.output_text == "It says rain.", second


def errors():
    for more in ({"input": "too long"}, {"input": "a", "previous_response_id": "resp_1"}):
        try:
            client.responses.create(model=MODEL, **more)
            raise AssertionError("let through")
        except openai.BadRequestError:
            pass


for step in (response, streamed_response, function_and_its_output, errors):
    step()
    print("ok", step.__name__, flush=True)
print("done 4")
