"""A model of nothing: random weights, a real tokenizer, a chat template.

What vLLM needs to serve a model is written to a folder: a configuration of a
llama of 2 layers and 64 numbers (vLLM invents the weights, `--load-format
dummy`), a byte-level BPE trained here on the project's own pages, and a chat
template. Nothing is downloaded. The same pages give the same tokenizer.
"""
import json
import pathlib

VOCABULARY = 1024
CONTEXT = 4096
MARKS = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{% if tools %}<|system|>\n{{ tools | tojson }}<|end|>\n{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>\n"
    "{% if message.reasoning %}{{ message.reasoning }}\n{% endif %}"
    "{{ message.content or '' }}"
    "{% if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}"
    "<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "vocab_size": VOCABULARY,
    "bos_token_id": None,
    "eos_token_id": 0,
}


# One that sees (LLaVA): CLIP of 2 layers, 8 x 8 patches a picture.
PICTURE = "<image>"
SIDE, PATCH = 112, 14
SEEING = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": len(MARKS),
    "image_token_id": len(MARKS),
    "image_seq_length": (SIDE // PATCH) ** 2,
    "projector_hidden_act": "gelu",
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "default",
    "torch_dtype": "float32",
    "text_config": CONFIG,
    "vocab_size": VOCABULARY,
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE,
        "patch_size": PATCH, "projection_dim": 32},
}
SEEING_TEMPLATE = TEMPLATE.replace(
    "{{ message.content or '' }}",
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content or [] %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}")

# One that hears (Qwen2-Audio): an encoder of 2 layers, a token for each 40 ms.
SOUND = "<|AUDIO|>"
SOUND_MARKS = [SOUND, "<|audio_bos|>", "<|audio_eos|>"]
MELS = 128
HEARING = {
    "architectures": ["Qwen2AudioForConditionalGeneration"],
    "model_type": "qwen2_audio",
    "audio_token_index": len(MARKS),
    "ignore_index": -100,
    "torch_dtype": "float32",
    "text_config": {**CONFIG, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
    "vocab_size": VOCABULARY,
    "audio_config": {
        "model_type": "qwen2_audio_encoder", "d_model": 32, "encoder_layers": 2,
        "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "num_mel_bins": MELS,
        "max_source_positions": 1500},
}
HEARING_TEMPLATE = SEEING_TEMPLATE.replace("'image'", "'audio'").replace(
    PICTURE, "<|audio_bos|><|AUDIO|><|audio_eos|>")


def pages():
    """The project's own prose, in a stable order."""
    root = pathlib.Path(__file__).resolve().parents[2]
    found = [p for p in root.rglob("*.md") if "build" not in p.relative_to(root).parts[0]]
    return [p.read_text(errors="replace") for p in sorted(found)]


def write_draft(folder):
    """One layer that drafts for the model of `write`, as EAGLE does."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 1}) + "\n")
    return folder


def write_weighted(folder, config=None):
    """The same with weights: random ones that mix well, so that a token depends on
    all before it, and the best one is best by far."""
    import torch
    from safetensors.torch import save_file

    folder = write(folder, config)
    random = torch.Generator().manual_seed(1)
    wide, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]

    def mixing(rows, columns):
        return torch.randn(rows, columns, generator=random) * 2 / columns ** 0.5
    weights = {"model.embed_tokens.weight": torch.randn(VOCABULARY, wide, generator=random),
               "model.norm.weight": torch.ones(wide),
               "lm_head.weight": torch.randn(VOCABULARY, wide, generator=random)}
    for layer in range(CONFIG["num_hidden_layers"]):
        base = f"model.layers.{layer}"
        for name in "qkvo":
            weights[f"{base}.self_attn.{name}_proj.weight"] = mixing(wide, wide)
        for name, size in (("gate", (inner, wide)), ("up", (inner, wide)), ("down", (wide, inner))):
            weights[f"{base}.mlp.{name}_proj.weight"] = mixing(*size)
        for name in ("input", "post_attention"):
            weights[f"{base}.{name}_layernorm.weight"] = torch.ones(wide)
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def write_seeing(folder, _=None):
    """The same for a model that sees."""
    write(folder, SEEING, [*MARKS, PICTURE], SEEING_TEMPLATE)
    half = [0.5, 0.5, 0.5]
    files = {
        "preprocessor_config.json": {
            "image_processor_type": "CLIPImageProcessor", "processor_class": "LlavaProcessor",
            "size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE},
            "image_mean": half, "image_std": half},
        "processor_config.json": {
            "processor_class": "LlavaProcessor", "image_token": PICTURE, "patch_size": PATCH,
            "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    return folder


def write_hearing(folder, _=None):
    """The same for a model that hears."""
    write(folder, HEARING, [*MARKS, *SOUND_MARKS], HEARING_TEMPLATE)
    # Without it Qwen2-Audio's processor takes one of its own, which no file has.
    (folder / "chat_template.jinja").write_text(HEARING_TEMPLATE)
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "Qwen2AudioProcessor", "feature_size": MELS, "sampling_rate": 16000,
        "hop_length": 160, "n_fft": 400, "chunk_length": 30, "nb_max_frames": 3000,
        "n_samples": 480000, "padding_side": "right", "padding_value": 0.0,
        "return_attention_mask": True}, indent=1) + "\n")
    return folder


def write(folder, config=None, marks=None, template=TEMPLATE):
    """Makes the folder and writes the model to it; it is what to serve."""
    # Only vLLM's own Python is sure to have it.
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(pages(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=marks or MARKS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    folder = pathlib.Path(folder)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    files = {
        "config.json": config or CONFIG,
        "generation_config.json": {"eos_token_id": 0},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": MARKS[0],
            **({"extra_special_tokens": {"image_token": PICTURE}}
               if PICTURE in (marks or ()) else {}),
            "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT,
            "chat_template": template},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    return folder
