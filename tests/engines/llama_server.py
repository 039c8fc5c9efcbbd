#!/usr/bin/env python3
"""llama.cpp's server with a model of nothing: llama_server.py MODEL_DIR PORT NAME

The server is xllamacpp's, which runs llama.cpp's own code in this process. It
reads GGUF only, so what model.py wrote is written again in that form, with the
same tokens and template and with random weights.
"""
import json
import pathlib
import sys
import threading

import gguf
import numpy
import xllamacpp

SLOTS, CONTEXT = 4, 16384  # tokens, of all slots
CONTROL, NORMAL = 3, 1    # kinds of tokens


def write(folder, path):
    """What is in the folder, as GGUF."""
    config, tokenizer, about = (json.loads((folder / name).read_text()) for name in (
        "config.json", "tokenizer.json", "tokenizer_config.json"))
    wide, inner, layers, heads = (config[name] for name in (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"))
    pieces = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    marks = {token["id"] for token in tokenizer["added_tokens"]}
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(wide)
    out.add_block_count(layers)
    out.add_feed_forward_length(inner)
    out.add_head_count(heads)
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_rope_dimension_count(config["head_dim"])
    out.add_rope_freq_base(config["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_vocab_size(len(pieces))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(pieces)
    out.add_token_types([CONTROL if i in marks else NORMAL for i in range(len(pieces))])
    out.add_token_merges([m if isinstance(m, str) else " ".join(m)
                          for m in tokenizer["model"]["merges"]])
    out.add_eos_token_id(config["eos_token_id"])
    out.add_add_bos_token(False)
    out.add_chat_template(about["chat_template"])
    random = numpy.random.default_rng(1)

    def mixing(name, rows, columns):
        weights = random.standard_normal((rows, columns)) * 2 / columns ** 0.5
        out.add_tensor(name + ".weight", weights.astype(numpy.float32))

    def ones(name):
        out.add_tensor(name + ".weight", numpy.ones(wide, numpy.float32))
    mixing("token_embd", len(pieces), wide)
    mixing("output", len(pieces), wide)
    ones("output_norm")
    for layer in range(layers):
        base = f"blk.{layer}"
        for part in ("q", "k", "v", "output"):
            mixing(f"{base}.attn_{part}", wide, wide)
        for part, rows, columns in (("gate", inner, wide), ("up", inner, wide),
                                    ("down", wide, inner)):
            mixing(f"{base}.ffn_{part}", rows, columns)
        ones(f"{base}.attn_norm")
        ones(f"{base}.ffn_norm")
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    folder, port, name = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    path = pathlib.Path.cwd() / "model.gguf"
    write(folder, path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {name}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel = CONTEXT, SLOTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.endpoint_slots = False, True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
