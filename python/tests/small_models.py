"""Small random models as files of GGUF, one of each architecture, and what NumPy makes of them in float64: written from the papers and
the reference models, and of nothing that quern has."""

import gguf
import numpy as np

VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD, INNER, LAYERS, CONTEXT = 96, 64, 4, 2, 16, 96, 3, 256

# What each has beside matrices: norm, rope, ...
ARCHITECTURES = {
    "llama": {}, "llama_scaled": {"arch": "llama", "rope_freqs": True, "output": True}, "llama_yarn": {"arch": "llama", "yarn": True},
    "llama_linear": {"arch": "llama", "linear": 4.0}, "llama_partial": {"arch": "llama", "rope_size": 8},
    "granite": {"scales": True}, "qwen2": {"rope": "halves", "qkv_bias": True, "output": True}, "qwen3": {"rope": "halves", "head_norm": "each", "head": 24},
    "olmo2": {"rope": "halves", "head_norm": "all", "pre_norm": False, "post_norm": True, "output": True},
    "phi3": {"rope": "halves", "fused": True, "window": 20, "period": 1, "output": True}, "gemma": {"rope": "halves", "act": "gelu", "by_width": True},
    "gemma2": {"rope": "halves", "act": "gelu", "by_width": True, "post_norm": True, "caps": (5.0, 3.0), "window": 10, "period": 2},
    "gemma3": {"rope": "halves", "act": "gelu", "by_width": True, "post_norm": True, "head_norm": "each", "window": 12, "period": 6, "layers": 7, "local_base": 10000.0},
    "gpt2": {"rope": None, "norm": "layer", "act": "gelu", "gated": False, "fused": True, "bias": True, "kv": HEADS},
    "starcoder2": {"rope": "halves", "norm": "layer", "act": "gelu", "gated": False, "bias": True},
}


class SmallModel:
    def __init__(self, name, path, quantised=False, seed=0):
        self.f = f = {"arch": name, "rope": "pairs", "norm": "rms", "act": "silu", "gated": True, "kv": KV_HEADS, "head": HEAD, "layers": LAYERS, "pre_norm": True,
                      **ARCHITECTURES[name]}
        f.setdefault("rope_size", f["head"])
        self.rng = np.random.default_rng(seed)
        self.w, self.quantised = {}, quantised
        self.base = 10000.0 if not f.get("local_base") else 100000.0
        self.make_weights()
        self.write(path)

    def put(self, name, *shape, scale=None, mean=0.0):
        values = (mean + self.rng.normal(0, scale if scale is not None else 1.5 / np.sqrt(shape[-1]), shape)).astype(np.float32)
        if self.quantised and len(shape) == 2 and shape[1] % 32 == 0:
            raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            self.w[name] = (gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.Q8_0).astype(np.float64), raw, gguf.GGMLQuantizationType.Q8_0)
        else:
            self.w[name] = (values.astype(np.float64), values, None)

    def make_weights(self):
        f = self.f
        q, kv = HEADS * f["head"], f["kv"] * f["head"]

        def matrix(name, out, inner, bias):
            self.put(name + ".weight", out, inner)
            if bias:
                self.put(name + ".bias", out, scale=0.2)

        def norm(name, size=WIDTH):
            self.put(name + ".weight", size, scale=0.2, mean=1)
            if f["norm"] == "layer":
                self.put(name + ".bias", size, scale=0.2)

        self.put("token_embd.weight", VOCABULARY, WIDTH, scale=1)
        if f["rope"] is None:
            self.put("position_embd.weight", CONTEXT, WIDTH, scale=0.5)
        if f.get("rope_freqs"):
            self.w["rope_freqs.weight"] = (v := np.linspace(1, 8, f["rope_size"] // 2).astype(np.float32)).astype(np.float64), v, None
        norm("output_norm")
        if f.get("output"):
            self.put("output.weight", VOCABULARY, WIDTH)
        bias = f.get("bias", False)
        for i in range(f["layers"]):
            p = f"blk.{i}."
            if f["pre_norm"]:
                norm(p + "attn_norm")
                norm(p + "ffn_norm")
            if f.get("post_norm"):
                norm(p + "post_attention_norm")
                norm(p + "post_ffw_norm")
            if f.get("fused"):
                matrix(p + "attn_qkv", q + 2 * kv, WIDTH, bias)
            else:
                for part, size in (("q", q), ("k", kv), ("v", kv)):
                    matrix(p + "attn_" + part, size, WIDTH, bias or f.get("qkv_bias"))
            if f.get("head_norm"):
                norm(p + "attn_q_norm", f["head"] if f["head_norm"] == "each" else q)
                norm(p + "attn_k_norm", f["head"] if f["head_norm"] == "each" else kv)
            matrix(p + "attn_output", WIDTH, q, bias)
            if f["gated"] and not f.get("fused"):
                matrix(p + "ffn_gate", INNER, WIDTH, False)
            matrix(p + "ffn_up", INNER * (2 if f["gated"] and f.get("fused") else 1), WIDTH, bias)
            matrix(p + "ffn_down", WIDTH, INNER, bias)

    def write(self, path):
        f = self.f
        w = gguf.GGUFWriter(path, f["arch"])
        w.add_block_count(f["layers"])
        w.add_embedding_length(WIDTH)
        w.add_feed_forward_length(INNER)
        w.add_head_count(HEADS)
        w.add_head_count_kv(f["kv"])
        w.add_context_length(CONTEXT)
        w.add_key_length(f["head"])
        w.add_value_length(f["head"])
        (w.add_layer_norm_rms_eps if f["norm"] == "rms" else w.add_layer_norm_eps)(1e-5)
        if f["rope"]:
            w.add_rope_dimension_count(f["rope_size"])
            w.add_rope_freq_base(self.base)
        if f.get("linear"):
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            w.add_rope_scaling_factor(f["linear"])
        if f.get("yarn"):
            w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            w.add_rope_scaling_factor(4.0)
            w.add_rope_scaling_orig_ctx_len(64)
        if f.get("window"):
            w.add_sliding_window(f["window"])
        if f.get("caps"):
            w.add_attn_logit_softcapping(f["caps"][0])
            w.add_final_logit_softcapping(f["caps"][1])
        if f.get("scales"):
            w.add_embedding_scale(3.0)
            w.add_residual_scale(0.4)
            w.add_attention_scale(0.1)
            w.add_logit_scale(2.0)
        w.add_tokenizer_model("llama")
        w.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(32, 32 + VOCABULARY - 3)])
        w.add_token_types([2, 3, 3] + [6] * (VOCABULARY - 3))
        w.add_token_scores([0.0] * VOCABULARY)
        w.add_add_space_prefix(False)
        w.add_chat_template("{% for m in messages %}{{ m.role[0] ~ ':' ~ m.content ~ ';' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}")
        for name, (_, stored, kind) in self.w.items():
            w.add_tensor(name, stored, raw_dtype=kind)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    # ---- The reference
    def weight(self, name):
        return self.w[name][0]

    def norm(self, x, name):
        if name + ".weight" not in self.w:
            return x
        if self.f["norm"] == "rms":
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.weight(name + ".weight")
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * self.weight(name + ".weight") + self.weight(name + ".bias")

    def product(self, x, name):
        y = x @ self.weight(name + ".weight").T
        return y + self.weight(name + ".bias") if name + ".bias" in self.w else y

    def speeds(self, local):
        """How far each pair of numbers turns from place to place, and by what all are multiplied."""
        f, size = self.f, self.f["rope_size"]
        base = f["local_base"] if local and f.get("local_base") else self.base
        speeds = base ** (-np.arange(0, size, 2) / size)
        if f.get("rope_freqs"):
            speeds = speeds / self.weight("rope_freqs.weight")
        if f.get("linear"):
            speeds = speeds / f["linear"]
        if not f.get("yarn"):
            return speeds, 1.0
        edge = lambda turns: size * np.log(64 / (turns * 2 * np.pi)) / (2 * np.log(base))  # noqa: E731
        low, high = max(0, np.floor(edge(32))), min(size - 1, np.ceil(edge(1)))
        ramp = np.clip((np.arange(size // 2) - low) / max(0.001, high - low), 0, 1)
        return speeds / 4 * ramp + speeds * (1 - ramp), 1 + 0.1 * np.log(4.0)

    def turn(self, x, local):
        if self.f["rope"] is None:
            return x
        speeds, size = self.speeds(local)
        angles = np.arange(x.shape[0])[:, None] * speeds
        c, s = np.cos(angles)[:, None] * size, np.sin(angles)[:, None] * size
        n, result = self.f["rope_size"], x.copy()
        a, b = (slice(0, n, 2), slice(1, n, 2)) if self.f["rope"] == "pairs" else (slice(0, n // 2), slice(n // 2, n))
        result[..., a] = x[..., a] * c - x[..., b] * s
        result[..., b] = x[..., a] * s + x[..., b] * c
        return result

    def attention(self, x, i):
        f, p, n, size = self.f, f"blk.{i}.", x.shape[0], self.f["head"]
        if f.get("fused"):
            q, k, v = np.split(self.product(x, p + "attn_qkv"), [HEADS * size, (HEADS + f["kv"]) * size], axis=1)
        else:
            q, k, v = (self.product(x, p + "attn_" + part) for part in "qkv")
        if f.get("head_norm") == "all":
            q, k = self.norm(q, p + "attn_q_norm"), self.norm(k, p + "attn_k_norm")
        q, k, v = q.reshape(n, HEADS, size), k.reshape(n, f["kv"], size), v.reshape(n, f["kv"], size)
        if f.get("head_norm") == "each":
            q, k = self.norm(q, p + "attn_q_norm"), self.norm(k, p + "attn_k_norm")
        local = f.get("window") and (f["period"] == 1 or i % f["period"] != f["period"] - 1)
        q, k = self.turn(q, local), self.turn(k, local)
        k, v = k.astype(np.float16).astype(np.float64), v.astype(np.float16).astype(np.float64)  # as the cache has them
        k, v = np.repeat(k, HEADS // f["kv"], 1), np.repeat(v, HEADS // f["kv"], 1)
        scores = np.einsum("qhd,khd->hqk", q, k) * (0.1 if f.get("scales") else size ** -0.5)
        if f.get("caps"):
            scores = np.tanh(scores / f["caps"][0]) * f["caps"][0]
        rows, columns = np.arange(n)[:, None], np.arange(n)
        seen = (columns <= rows) & (columns > rows - f["window"] if local else True)
        scores = np.where(seen, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
        return self.product(np.einsum("hqk,khd->qhd", scores, v).reshape(n, -1), p + "attn_output")

    def feed_forward(self, x, i):
        p = f"blk.{i}."
        act = (lambda y: y / (1 + np.exp(-y))) if self.f["act"] == "silu" else (lambda y: 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))))
        up = self.product(x, p + "ffn_up")
        if not self.f["gated"]:
            return self.product(act(up), p + "ffn_down")
        gate, up = np.split(up, 2, axis=1) if self.f.get("fused") else (self.product(x, p + "ffn_gate"), up)
        return self.product(act(gate) * up, p + "ffn_down")

    def logits(self, tokens):
        """Of what follows each of the tokens."""
        f, scales = self.f, self.f.get("scales")
        x = self.weight("token_embd.weight")[tokens] * (np.sqrt(WIDTH) if f.get("by_width") else 3.0 if scales else 1)
        if f["rope"] is None:
            x = x + self.weight("position_embd.weight")[: len(tokens)]
        residual = 0.4 if scales else 1
        for i in range(f["layers"]):
            p = f"blk.{i}."
            x = x + residual * self.norm(self.attention(self.norm(x, p + "attn_norm"), i), p + "post_attention_norm")
            x = x + residual * self.norm(self.feed_forward(self.norm(x, p + "ffn_norm"), i), p + "post_ffw_norm")
        y = self.norm(x, "output_norm") @ self.weight("output.weight" if f.get("output") else "token_embd.weight").T / (2.0 if scales else 1)
        return np.tanh(y / f["caps"][1]) * f["caps"][1] if f.get("caps") else y
