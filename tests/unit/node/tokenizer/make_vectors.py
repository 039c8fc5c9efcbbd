#!/usr/bin/env python3
"""Writes tokenizer_vectors.h: small tokenizers, texts, and the ids that the
library `tokenizers` gives them. By hand, when a case is added:

    make_vectors.py > tokenizer_vectors.h      # a Python with `tokenizers`
"""
import json

import tokenizers
from tokenizers import Tokenizer

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_characters():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) if b in keep else chr(256 + rest.index(b)) for b in range(256)]


def added(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


def whole(model, tokens=(), **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens), "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": model, **parts}


def bpe(vocabulary, merges, **options):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "vocab": {t: i for i, t in enumerate(vocabulary)}, "merges": merges, **options}


def byte_level():
    merges = ["h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ Ġ", "' s", "a a", "aa a", "aa aa", "Ã ©", "1 2"]
    vocabulary = byte_characters() + [m.replace(" ", "") for m in merges]
    tokens = [added(268, "<|end|>", special=True), added(269, "<l>", lstrip=True), added(270, "<r>", rstrip=True), added(271, "one", single_word=True),
              added(272, "<|end|>x")]
    split = {"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": False}
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return whole(bpe(vocabulary, merges), tokens, normalizer={"type": "NFC"}, pre_tokenizer={"type": "Sequence", "pretokenizers": [split, last]}, decoder=last)


def byte_fallback():
    merges = ["▁ h", "l l", "▁h e", "▁he ll", "▁hell o", "▁ ▁", "o ▁"]
    vocabulary = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + list("▁helowrd") + [m.replace(" ", "") for m in merges]
    post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    norm = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return whole(bpe(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True), [added(1, "<s>", special=True), added(2, "</s>", special=True)],
                 normalizer=norm, post_processor=post, decoder=decoder)


def unigram():
    scores = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("▁he", -3.0), ("llo", -3.5), ("l", -4.0), ("o", -4.1), ("h", -4.2), ("e", -4.3), ("▁hello", -9.0), ("ll", -5.0), ("w", -6.0), ("é", -7.0)]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    norm = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}
    return whole({"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": False}, [added(1, "</s>", special=True)],
                 normalizer=norm, pre_tokenizer=metaspace, decoder=metaspace)


def unigram_ties():
    """Scores that are equal as serde_json reads them, and not as strtod() does;
    a vowel of which NFKD makes a mark and a letter."""
    scores = [("<unk>", 0.0), ("▁", -2.0), ("xy", -11.389223822355513), ("x", -11.389223822355511), ("y", 0.0), ("า", -3.0)]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    norm = {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}]}
    return whole({"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": False}, normalizer=norm, pre_tokenizer=metaspace, decoder=metaspace)


def wordpiece():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "he", "##llo", "##l", "hell", "##o", "wor", "##ld", "!", ",", "中", "cafe", "a", "##b"]
    return whole({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 12, "vocab": {t: i for i, t in enumerate(vocabulary)}},
                 [added(2, "[CLS]", special=True), added(3, "[SEP]", special=True)],
                 normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                 pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
                 post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})


def taken():
    """A token that another one took with its spaces; \\w, which is not [\\w]; {2}?;
    Han since Unicode 15; two tokens that are normalised to one; a start that a
    normaliser takes away."""
    tokens = [added(2, "<r>", rstrip=True), added(3, "\n", lstrip=True), added(4, "Q", normalized=True), added(5, "q", normalized=True, special=True),
              added(6, "  ", lstrip=True, rstrip=True)]
    norm = {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "*"}, "content": ""}, {"type": "Replace", "pattern": {"Regex": "~+"}, "content": ""},
                                                {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": True, "lowercase": True}]}
    cuts = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Removed", "invert": False} for p in (r"\w\u00df", r"z{2}?y", r"[\w]\u00e6", r"\p{Han}")]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    letters = ["<unk>"] + list("▁ab\u00df\u00e6\u00b2zy*~w\n\u0301") + ["\U0002b739", "\U0002b738"]
    return whole(bpe(letters, [], unk_token="<unk>"), tokens, normalizer=norm, pre_tokenizer={"type": "Sequence", "pretokenizers": [*cuts, metaspace]})


CASES = {
    "byte_level": (byte_level(), ["hello hello", "  hello's", "he'S", "cafe\u0301 café", "123 12", "hi<|end|>hello", "a  <l> b<r>  c", "one oneone _one", "<|end|>x<|end|>",
                                  "aaaaaaa" * 10, "\r\n\n  x", "中文", "\u0000\ufffd", "'\u017f", ""]),
    "byte_fallback": (byte_fallback(), ["hello world", "hello  hello", "é中", "<s>hello</s> he", "", " ", "xello" * 20, "o hello o o▁"]),
    "unigram": (unigram(), ["hello HELLO", "hello\u0301", "xyz hello", "ＨＥllo", "w </s>w", " hello", "ééx"]),
    "unigram_ties": (unigram_ties(), ["xy", "\u0e33", "\u0e4d\u0e32", "\u0301\u0e33"]),
    "taken": (taken(), ["<r>\n", "<r> \na\n", "    a    ", "a\n\n", "Qq", "\u00b2\u00df\u00b2\u00e6a\u00df", "zzyzyayz", "*a", "a*", "~~a", "\u0000a", "\u0301a", "\U0002b739a\U0002b738"]),
    "wordpiece": (wordpiece(), ["Hello, WORLD!", "hell o", "café中hello", "aaaaaaaaaaaaaaaaaaaa ab", "a\u00adb\tab", "[SEP] hello", "xyz", ""]),
}


def c_bytes(text, indent="    "):
    out, line = [], indent + '"'
    for byte in text.encode():
        c = chr(byte)
        piece = {'"': '\\"', "\\": "\\\\", "?": "\\077"}.get(c, c) if 32 <= byte < 127 else "\\%03o" % byte
        if len(line) + len(piece) > 78:
            out.append(line + '"')
            line = indent + '"'
        line += piece
    return "\n".join([*out, line + '"'])


def main():
    print("/*\n * Small tokenizers, and the ids that the library gives to texts: made by\n"
          f" * make_vectors.py with tokenizers {tokenizers.__version__}. Not to be edited.\n */")
    print("#ifndef TOKENIZER_VECTORS_H\n#define TOKENIZER_VECTORS_H\n\n#include <stdint.h>\n\n#include \"index/base/slice.h\"\n\n/* clang-format off */")
    print("struct vector {\n    struct slice text;\n    struct slice ids; /* in decimal, with special tokens */\n    struct slice bare; /* and without */\n    struct slice decoded; /* of ids, special tokens left out */\n};\n")
    for name, (tokenizer, texts) in CASES.items():
        text = json.dumps(tokenizer, ensure_ascii=True, separators=(",", ":"))
        library = Tokenizer.from_str(text)
        print(f"static const char {name}_json[] =\n{c_bytes(text)};\n")
        print(f"static const struct vector {name}_vectors[] = {{")
        for t in texts:
            ids = library.encode(t).ids
            bare = library.encode(t, add_special_tokens=False).ids
            fields = [t, " ".join(map(str, ids)), " ".join(map(str, bare)), library.decode(ids)]
            print("    {" + ",\n     ".join(f"SLICE(\n{c_bytes(f, '        ')})" for f in fields) + "},")
        print("};\n")
    print("/* clang-format on */\n\n#endif")


main()
