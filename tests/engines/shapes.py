"""The same vLLM under other options: what its events look like then.

Every variant is an engine of its own, asked a few prompts. What it must show
is a fact like those of wire.py; one payload of each is kept.
"""
import json
import pathlib

import msgspec
import zmq

import engine as engines
import model

HYBRID = {
    **model.CONFIG,
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
    "num_hidden_layers": 4, "hidden_activation": "gelu_pytorch_tanh",
    "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 2,
    "query_pre_attn_scalar": 32, "tie_word_embeddings": True,
    "rope_local_base_freq": 10000.0, "attention_bias": False,
}
HYBRID_FLAGS = ["--no-disable-hybrid-kv-cache-manager"]
# Short convolutions, which keep a state as Mamba does (LFM2).
STATES = {
    **model.CONFIG,
    "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2",
    "num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2,
    "conv_bias": False, "conv_L_cache": 3, "conv_dim": 64, "block_dim": 64,
    "block_auto_adjust_ff_dim": False,
    "norm_eps": 1e-5, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}
ADAPTER = "adapter-a"
QUIET_MS = 400


def rank_flags(count):
    return ["--data-parallel-size", str(count), "--api-server-count", "1"]


def prompt(blocks, first=10, size=32):
    """So many whole blocks and 4 tokens."""
    return list(range(first, first + blocks * size + 4))


def adapter(folder):
    """A LoRA adapter of random numbers; the options that load it."""
    import torch
    from safetensors.torch import save_file

    folder = folder / "lora"
    folder.mkdir()
    torch.manual_seed(1)
    weights = {}
    for layer in range(model.CONFIG["num_hidden_layers"]):
        for part in ("q_proj", "v_proj"):
            base = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            weights[f"{base}.lora_A.weight"] = torch.randn(8, 64) * 0.01
            weights[f"{base}.lora_B.weight"] = torch.randn(64, 8) * 0.01
    save_file(weights, str(folder / "adapter_model.safetensors"))
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 8,
        "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"],
        "base_model_name_or_path": engines.MODEL}))
    return ["--enable-lora", "--max-loras", "1", "--max-lora-rank", "8",
            "--lora-modules", f"{ADAPTER}={folder}"]


class Asker:
    """An engine, and what its ranks publish."""

    def __init__(self, engine, ranks, captures):
        self.engine, self.captures = engine, captures
        self.context = zmq.Context()
        self.subs = []
        for rank in range(ranks):
            sub = self.context.socket(zmq.SUB)
            sub.subscribe(b"")
            sub.connect(f"tcp://127.0.0.1:{engine.events_port + rank}")
            self.subs.append(sub)
        engines.wait_until(self.connected, "events arrive")

    def connected(self):
        """A subscription takes a while: ask something new until it is heard."""
        self.salt = getattr(self, "salt", 0) + 1
        self.ask(prompt(1), cache_salt=f"warm-{self.salt}")
        return self.heard("") and all(s.poll(0) == 0 for s in self.subs)

    def ask(self, tokens, headers=None, **more):
        """Cached tokens."""
        body = {"model": engines.MODEL, "prompt": tokens, "max_tokens": 1, **more}
        status, _, raw = engines.call(self.engine.address, "POST", "/v1/completions", body,
                                      headers=headers)
        if status != 200:
            raise RuntimeError(f"{status} {raw[:300]!r}")
        return json.loads(raw)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def heard(self, keep):
        """Everything published meanwhile: [(rank of the socket, batch)]."""
        found = []
        for rank, sub in enumerate(self.subs):
            while sub.poll(QUIET_MS):
                payload = sub.recv_multipart()[2]
                if keep and self.captures:
                    name = f"vllm-{self.engine.version()}-{keep}-{len(found)}"
                    (pathlib.Path(self.captures) / name).write_bytes(payload)
                found.append((rank, msgspec.msgpack.decode(payload)))
        return found

    def close(self):
        self.context.destroy(linger=0)


def events_of(heard):
    return [event for _, batch in heard for event in batch[1]]


def raw_hashes(asker, note):
    asker.ask(prompt(2), cache_salt="tenant-a")
    event = events_of(asker.heard("bin-salt"))[0]
    note("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0: hashes are 32 bytes",
         all(isinstance(h, bytes) and len(h) == 32 for h in event["block_hashes"]), event)


def sessions(asker, note):
    asker.ask(prompt(2, 100), session_id="conv-9")
    by_body = events_of(asker.heard("session"))[0]
    asker.ask(prompt(2, 200), {"x-session-id": "conv-8"})
    by_header = events_of(asker.heard(""))[0]
    got = by_body.get("session_id"), by_header.get("session_id")
    note("a session is named in its events", got == ("conv-9", "conv-8"), got)


def full_reports(asker, note):
    asker.ask(prompt(2, 300))
    first = events_of(asker.heard(""))[0]
    cached = asker.ask(prompt(2, 300), vllm_xargs={"kv_cache_report_mode": "full"})
    again = events_of(asker.heard("full"))
    note("a full report announces hits again, and they look like copies (2.7)",
         cached == 64 and again == [first], again)


def adapters(asker, note):
    asker.ask(prompt(2), model=ADAPTER, cache_salt="tenant-a")
    event = events_of(asker.heard("lora-salt"))[0]
    got = event["lora_name"], event["extra_keys"]
    note("an adapter is in lora_name and every block's extra_keys, the salt after it (25)",
         got == (ADAPTER, [[ADAPTER, "tenant-a"], [ADAPTER]]), event)


def hybrids(asker, note):
    asker.ask(prompt(4), max_tokens=40, ignore_eos=True)
    heard = asker.heard("hybrid")
    events = events_of(heard)
    kinds = {e["group_idx"]: e["kv_cache_spec_kind"] for e in events}
    note("of a hybrid model the full attention need not be group 0 (9)",
         kinds == {0: "sliding_window", 1: "full_attention"}, kinds)
    sparse = [e for e in events if e["kv_cache_spec_kind"] == "sliding_window"]
    note("sliding windows name fewer blocks than tokens (8)",
         all(len(e["token_ids"]) > 32 * len(e["block_hashes"]) for e in sparse), sparse)
    note("or none at all", any(e["block_hashes"] == [] for e in sparse), sparse)


def ranks(asker, note):
    got = []
    for rank in (1, 0, 1):
        asker.ask(prompt(1, 40 + len(got)), {"x-data-parallel-rank": str(rank)})
        heard = asker.heard(f"rank-{rank}")
        got += [(at, batch[2]) for at, batch in heard]
    note("rank r publishes on port + r and names itself (22, 23)", got == [(1, 1), (0, 0), (1, 1)],
         got)
    sources = json.loads(engines.call(asker.engine.address, "GET", "/kv_event_sources")[2])
    ports = [int(sources[r]["endpoint"].rpartition(":")[2]) for r in ("0", "1")]
    note("/kv_event_sources has the ports of every rank",
         ports == [asker.engine.events_port, asker.engine.events_port + 1], sources)


def renders(asker, note):
    body = {"model": engines.MODEL, "messages": [{"role": "user", "content": "hello"}]}

    def post(path):
        status, _, raw = engines.call(asker.engine.address, "POST", path, body)
        return status, json.loads(raw)
    _, tokens = post("/tokenize")
    status, rendered = post("/v1/chat/completions/render")
    note("with --enable-scale-out the renderer answers what /tokenize answers",
         status == 200 and rendered["token_ids"] == tokens["tokens"], rendered)


# name, options (or what makes them), environment, ranks, model, what to look at
VARIANTS = [
    ("raw hashes, CBOR, renderer",
     ["--prefix-caching-hash-algo", "sha256_cbor", "--enable-scale-out"],
     {"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0"}, 1, model.CONFIG,
     [raw_hashes, sessions, full_reports, renders]),
    ("an adapter", adapter, {}, 1, model.CONFIG, [adapters]),
    ("a hybrid model", HYBRID_FLAGS, {}, 1, HYBRID, [hybrids]),
    ("two ranks", rank_flags(2), {}, 2, model.CONFIG, [ranks]),
]


def run(args, executable, folder, facts):
    """All variants, one after the other."""
    if args.captures:
        pathlib.Path(args.captures).mkdir(parents=True, exist_ok=True)
    for i, (name, options, environment, count, config, looks) in enumerate(VARIANTS):
        own = folder / f"variant-{i}"
        own.mkdir()
        served = model.write(own / "model", config)
        e = engines.Engine(executable, served, own, blocks=args.blocks,
                           block_tokens=32, env=environment, ranks=count,
                           more=options(own) if callable(options) else options)
        print(f"{name}: {' '.join(e.more) or 'as it is'}", flush=True)
        try:
            e.start()
            asker = Asker(e, count, args.captures)
            for look in looks:
                look(asker, facts.note)
            asker.close()
        finally:
            e.stop()
