#!/usr/bin/env python3
"""Ids of node/tokenizer against those of the library `tokenizers`, one by one.

    test_tokenizer.py           for the tokenizers of ../shared/data, and small
                                ones that are trained on the spot
    KVASIR_TOKENIZERS=DIR:...   and for each DIR/NAME/tokenizer.json
    KVASIR_TOKENIZERS_WHOLE=1   with all of the texts, not a few hundred KB of each
                                file (21 MB; some minutes for each tokenizer)
    KVASIR_TOKENIZERS_PYTHON=P  the Python that has the packages `tokenizers`
                                and `sentencepiece`, if it is another one

Texts: all of ../shared/data, this tree's code, JSON, emoji, broken UTF-8, every
character of Unicode, and random ones. Skips without the package.
"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

SKIP = 77
HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parent.parent.parent / "shared" / "data" / "traces"
BUILD = pathlib.Path(os.environ.get("KVASIR_BUILD", HERE.parent.parent / "build"))
FILE_MAX = 1 << 40 if os.environ.get("KVASIR_TOKENIZERS_WHOLE") else 300_000

try:
    import tokenizers
except ImportError:
    other = os.environ.get("KVASIR_TOKENIZERS_PYTHON")
    if other and not os.environ.get("KVASIR_TOKENIZERS_AGAIN"):
        os.environ["KVASIR_TOKENIZERS_AGAIN"] = "1"
        os.execv(other, [other, __file__, *sys.argv[1:]])
    print("skipped: no package `tokenizers` (pip install tokenizers; KVASIR_TOKENIZERS_PYTHON)")
    sys.exit(SKIP)

EMOJI = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f9d1\u200d\U0001f4bb\U0001f600\U0001f600"
ODD = [
    "", " ", "  ", "\n", "\r\n\r\n", "\t\tif (x) {\n\t\t\treturn;\n\t\t}\n", "'s 'S 't'T don't DON'T we'll WE'LL '\u017f x'\u017f",
    "a" * 5000, "\u2581" * 50, "\u2581a \u2581 b", "    four  spaces   ", "1234567 89 \u0661\u0662\u0663 \u00b2\u2167", EMOJI, "e\u0301 \u00e9 \u1e69 s\u0323\u0307 s\u0307\u0323 \u212b \ufb01 \uff21",
    "\u1100\u1161\u11a8 \uac01 \uac00\u11a8", "Stra\u00dfe \u0130stanbul I\u0307 \u01c5 \u00aaAB", "\u00a0\u2003x\u3000y\u0085z\u180ew", "</s><s>[INST] hi [/INST]<unk> <unk>", "<0x41><0xE2>",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|begin_of_text|>x<|eot_id|> y", "<start_of_turn>user\n<end_of_turn>", "\u0000a\u0001b\u007f", "\ufeffbom \ufffd", "\u200b\u200c\u200dzero",
    "x" * 100 + " " + "\u4e2d" * 101, "foo/bar//baz\n//comment\r\n/", "...!!!???\n\n\n   \n  x", "\u0915\u094d\u0937\u093f \u0e01\u0e33\u0e48 \u0627\u0651\u0650", "_a_b__c \u203f", "[CLS] [MASK][SEP]", "hello, World! it's 3.14",
]


def strings(value, out):
    if isinstance(value, str):
        if value:
            out.append(value)
    elif isinstance(value, dict):
        for member in value.values():
            strings(member, out)
    elif isinstance(value, list):
        for member in value:
            strings(member, out)


def unpack(name):
    """Bytes of a file of ../shared/data, or of each file in an archive."""
    path = SHARED / name
    if not path.exists():
        return
    if ".tar." not in name:
        yield name, subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "--zstd", "-xf", path, "-C", folder], check=True)
        for file in sorted(pathlib.Path(folder).rglob("*")):
            if file.is_file():
                yield str(file.relative_to(folder)), file.read_bytes()


def data_texts():
    """All texts of ../shared/data, FILE_MAX of each file at most."""
    for name in ["xquad_dev.tar.zst", "gsm8k_train2000.jsonl.zst", "mtbench.tar.zst", "qmsum_val.jsonl.zst", "bfcl_dev.tar.zst",
                 "taubench_airline_trials_even.jsonl.zst", "lmcache_miniswe_a.tar.zst", "otel_agent_traces.tar.zst"]:
        for _, raw in unpack(name):
            text = raw.decode("utf-8", "replace")
            found = []
            for part in ([text] if name.startswith("xquad") else text.splitlines()):
                try:
                    strings(json.loads(part), found)
                except ValueError:
                    found.append(part)
            size = 0
            for part in found:
                size += len(part)
                if size > FILE_MAX:
                    break
                yield part.encode("utf-8", "surrogatepass")
            yield raw[:20000]  # the JSON itself


def random_texts(rng, count):
    alphabets = [(0x20, 0x7f), (0, 0x100), (0x300, 0x370), (0x600, 0x700), (0x900, 0xa00), (0xe00, 0xe80), (0x1100, 0x1200), (0x2000, 0x2100),
                 (0x3040, 0x3100), (0x4e00, 0x5000), (0xac00, 0xad00), (0xff00, 0xfff0), (0x1f300, 0x1f700), (0x1d400, 0x1d7ff), (0, 0x110000)]
    marks = [" ", "\n", "'s", "\u2581", "  ", "\u0301", "\u0323", "a", "I", "1", "\r\n", "<|im_end|>", "</s>", "\u200d", "\ufe0f", "/", "\u3099"]
    for _ in range(count):
        text = []
        for _ in range(rng.randrange(1, 60)):
            low, high = rng.choice(alphabets)
            c = rng.randrange(low, high)
            text.append(rng.choice(marks) if rng.random() < 0.4 or 0xd800 <= c < 0xe000 else chr(c))
        yield "".join(text).encode()


def all_texts():
    rng = random.Random(7)
    texts = [t.encode() for t in ODD]
    texts += data_texts()
    texts += [path.read_bytes() for path in sorted((SHARED.parent / "chat-templates").glob("*.jinja"))]
    for pattern in ("node/**/*.c", "chaos/**/*.py", "tests/lint/*.py"):
        for path in sorted((HERE.parent.parent).glob(pattern))[:60]:
            texts.append(path.read_bytes()[:30000])
    plain = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    for at in range(0, len(plain), 2048):
        texts.append("".join(map(chr, plain[at:at + 2048])).encode())
        texts.append(" ".join("a" + chr(c) + "\u0301b" for c in plain[at:at + 2048] if c < 0x20000 or c % 64 == 0).encode())
    texts += random_texts(rng, 4000)
    for _ in range(400):  # broken UTF-8
        texts.append(bytes(rng.randrange(256) if rng.random() < 0.3 else rng.choice(b"ab \xe2\x82\xac\xf0\x9f\x98\x80") for _ in range(rng.randrange(80))))
    return texts


def special_texts(vocabulary, rng):
    """Added tokens with text around and between them."""
    added = [t.content for t in vocabulary.get_added_tokens_decoder().values()]
    for _ in range(400 if added else 0):
        yield "".join(rng.choice(added) if rng.random() < 0.5 else rng.choice(["a", " ", "  b ", "\n", "word ", "\u4e2d", "_"]) for _ in range(rng.randrange(1, 12))).encode()


def sample_of(texts):
    return [t.decode("utf-8", "replace") for t in texts if 50 < len(t) < 2000][::7][:1500]


def trained(folder, texts):
    """Small tokenizers of each kind, made by the library itself."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers as n, pre_tokenizers as p, processors, trainers
    sample = sample_of(texts)
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]

    def save(name, t):
        (folder / name).mkdir()
        t.save(str(folder / name / "tokenizer.json"))

    for name, lower, accents in (("bert_lower", True, None), ("bert_cased", False, None), ("bert_accents", True, False)):
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = n.BertNormalizer(lowercase=lower, strip_accents=accents)
        t.pre_tokenizer = p.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        t.train_from_iterator(sample, trainers.WordPieceTrainer(vocab_size=6000, special_tokens=specials, show_progress=False))
        t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
        t.enable_truncation(max_length=512)
        save(name, t)
    norms = {"nfkc": n.Sequence([n.NFKC(), n.Lowercase()]), "nfkd": n.Sequence([n.NFKD(), n.StripAccents(), n.Strip()]), "nfd": n.NFD(), "nmt": n.Sequence([n.Nmt(), n.NFC(), n.Replace(Regex(" {2,}"), " ")])}
    pres = {"nfkc": p.Metaspace(prepend_scheme="always"), "nfkd": p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")]), "nfd": p.Metaspace(prepend_scheme="first"), "nmt": p.Metaspace(prepend_scheme="never", split=False)}
    for name, norm in norms.items():
        t = Tokenizer(models.Unigram())
        t.normalizer, t.pre_tokenizer, t.decoder = norm, pres[name], decoders.Metaspace(prepend_scheme="always")
        t.train_from_iterator(sample[:1500], trainers.UnigramTrainer(vocab_size=4000, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
        t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
        save("unigram_" + name, t)
    splits = {
        "punct": p.Sequence([p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(individual_digits=False), p.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
        "words": p.Whitespace(), "digits": p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=True)]),
        "next": p.Split(Regex(r"\p{Lu}|\s"), "merged_with_next"), "previous": p.Split(" ", "merged_with_previous"), "contiguous": p.Split(Regex(r"\d|[aeiou]"), "contiguous"),
        "invert": p.Split(Regex(r"\w+|[^\w\s]{1,3}+"), "removed", invert=True), "fixed": p.FixedLength(7),
        "deepseek": p.Sequence([p.Split(Regex(r"\p{N}{1,3}"), "isolated"), p.Split(Regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), "isolated"),
                                p.Split(Regex("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), "isolated"),
                                p.ByteLevel(add_prefix_space=False, use_regex=False)]),
    }
    for name, pre in splits.items():
        options = {} if "ByteLevel" in str(pre) else {"unk_token": "<unk>"}
        suffix = {"end_of_word_suffix": "</w>"} if name == "words" else {}
        t = Tokenizer(models.BPE(fuse_unk=name == "words", byte_fallback=name == "fixed", **options, **suffix))
        t.pre_tokenizer = pre
        t.train_from_iterator(sample, trainers.BpeTrainer(vocab_size=5000, special_tokens=["<unk>"] + (["<0x%02X>" % b for b in range(256)] if name == "fixed" else []), show_progress=False, limit_alphabet=300,
                                                          initial_alphabet=p.ByteLevel.alphabet() if "ByteLevel" in str(pre) else [],
                                                          **suffix))
        t.add_tokens([tokenizers.AddedToken(" left", lstrip=True), tokenizers.AddedToken("right", rstrip=True, normalized=False), tokenizers.AddedToken("alone", single_word=True, normalized=False)])
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        save("bpe_" + name, t)
    spm(folder, sample, save)


def spm(folder, sample, save):
    """Unigram as T5 and XLM-R have it, with SentencePiece's own map."""
    try:
        import sentencepiece
    except ImportError:
        print("skipped: charsmap, no package `sentencepiece`")
        return
    from tokenizers import Tokenizer, decoders, models, normalizers as n, pre_tokenizers as p
    (folder / "sample.txt").write_text("\n".join(s.replace("\n", " ")[:1000] for s in sample[:2000]))
    for rule in ("nmt_nfkc", "nfkc_cf"):
        prefix = str(folder / rule)
        sentencepiece.SentencePieceTrainer.train(input=str(folder / "sample.txt"), model_prefix=prefix, vocab_size=3000, normalization_rule_name=rule, minloglevel=2, character_coverage=0.99)
        raw = pathlib.Path(prefix + ".model").read_bytes()
        at, charsmap = 0, b""
        while at < len(raw):  # the protobuf's field 3, and in it field 2
            tag, size, at = raw[at] >> 3, *varint(raw, at + 1)
            if tag == 3:
                inner, i = raw[at:at + size], 0
                while i < len(inner):
                    kind, wire = inner[i] >> 3, inner[i] & 7
                    length, i = varint(inner, i + 1)
                    if wire == 2:
                        charsmap = inner[i:i + length] if kind == 2 else charsmap
                        i += length
            at += size
        loaded = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
        vocabulary = [(loaded.id_to_piece(i), loaded.get_score(i)) for i in range(len(loaded))]
        for name, pre in (("t5", p.Sequence([p.WhitespaceSplit(), p.Metaspace()])), ("xlmr", p.Metaspace())):
            t = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=False))
            t.normalizer = n.Sequence([n.Precompiled(charsmap), n.Replace(tokenizers.Regex(" {2,}"), " ")])
            t.pre_tokenizer, t.decoder = pre, decoders.Metaspace()
            save(f"spm_{name}_{rule}", t)


def varint(raw, at):
    value = shift = 0
    while True:
        value |= (raw[at] & 127) << shift
        shift += 7
        at += 1
        if raw[at - 1] < 128:
            return value, at


def ours(path, texts, what):
    framed = b"".join(struct.pack("<I", len(t)) + t for t in texts)
    done = subprocess.run([BUILD / "tests" / "integration" / "tokenize_many", path, "", what], input=framed, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode()[-300:] + done.stdout.decode("utf-8", "replace")[-300:])
    return done.stdout


def compare(name, path, texts):
    """Differences: 0 is what we want."""
    library = tokenizers.Tokenizer.from_file(str(path))
    library.no_padding()
    texts = texts + list(special_texts(library, random.Random(3)))
    try:
        lines = ours(path, texts, "ids").decode().split("\n")
        decoded = ours(path, texts, "decode")
        cuts = ours(path, texts[-400:], "cuts").decode().strip()
    except RuntimeError as error:
        print(f"{name:24} FAILED {error}")
        return 1
    faults = ids = at = undecoded = 0
    wide = [t.decode("utf-8", "replace") for t in texts]
    expected = library.encode_batch(wide), library.encode_batch(wide, add_special_tokens=False)
    untruncated = expected[0]
    if library.truncation is not None:
        library.no_truncation()
        untruncated = library.encode_batch(wide)
    for i, text in enumerate(texts):
        for special in (0, 1):
            want = expected[special][i].ids
            got = [int(x) if x.isdigit() else x for x in lines[2 * i + special].split()]
            ids += len(want)
            if want != got:
                faults += 1
                if faults <= 5:
                    first = next((k for k, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
                    print(f"  {name}: text {i} ({text[:60]!r}) at id {first}: want {want[first:first + 6]}"
                          f" {[library.id_to_token(x) for x in want[max(0, first - 2):first + 4]]}, got {got[first:first + 6]}")
        size, = struct.unpack_from("<I", decoded, at)
        if decoded[at + 4:at + 4 + size].decode("utf-8", "replace") != library.decode(untruncated[i].ids):
            undecoded += 1
            if undecoded <= 2:
                print(f"  {name}: decoded {i} {text[:60]!r}: want {library.decode(untruncated[i].ids)[:60]!r}, got {decoded[at + 4:at + 64]!r}")
        at += 4 + size
    print(f"{name:24} {len(texts):6} texts {ids:9} ids, {faults} texts differ, {undecoded} decoded differ; {cuts}", flush=True)
    return faults + undecoded


def main():
    texts = all_texts()
    print(f"tokenizers {tokenizers.__version__}, {len(texts)} texts, {sum(map(len, texts))} bytes")
    faults = count = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for archive in ("tokenizer_qwen3.tar.zst", "tokenizer_mistral_sp.tar.zst"):
            for name, raw in unpack(archive):
                if name.endswith("tokenizer.json"):
                    (folder / pathlib.Path(name).parent.name).mkdir()
                    (folder / pathlib.Path(name).parent.name / "tokenizer.json").write_bytes(raw)
        wanted = sys.argv[1:]
        if not wanted or "trained" in wanted:
            trained(folder, texts)
        paths = sorted(folder.glob("*/tokenizer.json"))
        for more in filter(None, os.environ.get("KVASIR_TOKENIZERS", "").split(":")):
            paths += sorted(pathlib.Path(more).glob("*/tokenizer.json"))
        for path in paths:
            if not wanted or path.parent.name in wanted or "trained" in wanted and path.parent.name.startswith(("bert", "unigram", "bpe", "spm")):
                count += 1
                faults += compare(path.parent.name, path, texts)
    print(f"{count} tokenizers, {faults} differences")
    sys.exit(faults > 0 or count == 0)


main()
