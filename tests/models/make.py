#!/usr/bin/env python3
"""Writes tests/models/tiny: the files of a small model of our own, so that tests
of tokens need nobody else's. A byte-level BPE with a few hundred merges, special
tokens, and a ChatML template with tools, reasoning and dropped thoughts.

    tests/models/make.py    writes the files beside itself, always the same
"""
import collections
import json
import pathlib
import re

PLACE = pathlib.Path(__file__).parent / "tiny"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>",
           "<tool_call>", "</tool_call>"]
TEXT = """The router reads a prompt as the engine does and knows which worker holds the
longest part of it. What the node knows of an engine is what the engine said, and what it
does not know it asks. One conversation goes on where it was, because its beginning is in
the cache of the worker that has answered before. A worker is chosen for each request by
what would have to be computed there and by what waits there. You are a helpful assistant.
Answer in short sentences and say when you do not know something about the question."""

TEMPLATE = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n' }}
    {%- for tool in tools %}{{- tool | tojson + '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'refuse' %}{{- raise_exception('this role is refused') }}{%- endif %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content and loop.index0 > ns.last %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n' }}
        {%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role != 'system' or (not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""


def byte_letters():
    """The printable letter that stands for each byte, as GPT-2 has it."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (b for b in range(256) if b not in kept)
    letters = {b: chr(b) for b in kept}
    letters.update((b, chr(256 + n)) for n, b in enumerate(others))
    return letters


def merge(word, pair):
    out = []
    for letter in word:
        if out and (out[-1], letter) == pair:
            out[-1] += letter
        else:
            out.append(letter)
    return out


def learn(letters, count):
    words = collections.Counter(re.findall(r" ?\w+|[^\w\s]+|\s+", TEXT))
    words = {w: [letters[b] for b in w.encode()] for w in words}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for parts in words.values():
            pairs.update(zip(parts, parts[1:]))
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        words = {w: merge(parts, best) for w, parts in words.items()}
    return merges


def main():
    letters = byte_letters()
    merges = learn(letters, 300)
    vocab = {letters[b]: b for b in range(256)}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    added = [{"id": len(vocab) + n, "content": text, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": not text.endswith("call>")}
             for n, text in enumerate(SPECIAL)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
             "use_regex": True}
    PLACE.mkdir(exist_ok=True)
    (PLACE / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": level,
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": SPECIAL[0], "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                    {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {SPECIAL[0]: {"id": SPECIAL[0],
                                                           "ids": [added[0]["id"]],
                                                           "tokens": [SPECIAL[0]]}}},
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [f"{a} {b}" for a, b in merges]},
    }, indent=0) + "\n")
    (PLACE / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": None, "eos_token": SPECIAL[2], "pad_token": SPECIAL[0]}, indent=1) + "\n")
    (PLACE / "chat_template.jinja").write_text(TEMPLATE)


if __name__ == "__main__":
    main()
