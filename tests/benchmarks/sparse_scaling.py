#!/usr/bin/env python3
"""How the time of a token grows with the context under V3.2's sparse attention, and what a context of a million tokens takes.

The model is random: one layer with an indexer of the given size. Beyond index_topk keys attention costs the same whatever the context
is, and the indexer reads each key once, so time(c) = a + b c, fitted to medians of nine rounds of 64 tokens. b is compared with the rate
at which this machine multiplies and adds float32. Needs numpy.

usage: sparse_scaling.py DSV31 [--longest 131072] [--million]
"""
import argparse
import json
import pathlib
import struct
import subprocess
import tempfile
import time

import numpy as np

MILLION = 1_000_000


def write_model(folder, heads, dim, topk, context):
    hidden, q_lora, kv_lora, nope, rope, v, attention_heads, ffn, vocab = 128, 64, 64, 32, 16, 32, 4, 256, 512
    config = {
        "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "hidden_act": "silu", "hidden_size": hidden,
        "num_hidden_layers": 1, "first_k_dense_replace": 1, "num_attention_heads": attention_heads, "num_key_value_heads": attention_heads,
        "q_lora_rank": q_lora, "kv_lora_rank": kv_lora, "qk_nope_head_dim": nope, "qk_rope_head_dim": rope, "v_head_dim": v,
        "intermediate_size": ffn, "moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.0, "index_head_dim": dim,
        "index_n_heads": heads, "index_topk": topk, "max_position_embeddings": context, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "vocab_size": vocab, "bos_token_id": 0, "eos_token_id": 1,
    }
    p, a = "model.layers.0.", "model.layers.0.self_attn."
    shapes = {
        "model.embed_tokens.weight": (vocab, hidden), "lm_head.weight": (vocab, hidden), "model.norm.weight": (hidden,),
        p + "input_layernorm.weight": (hidden,), p + "post_attention_layernorm.weight": (hidden,), p + "mlp.gate_proj.weight": (ffn, hidden),
        p + "mlp.up_proj.weight": (ffn, hidden), p + "mlp.down_proj.weight": (hidden, ffn), a + "q_a_proj.weight": (q_lora, hidden),
        a + "q_a_layernorm.weight": (q_lora,), a + "q_b_proj.weight": (attention_heads * (nope + rope), q_lora),
        a + "kv_a_proj_with_mqa.weight": (kv_lora + rope, hidden), a + "kv_a_layernorm.weight": (kv_lora,),
        a + "kv_b_proj.weight": (attention_heads * (nope + v), kv_lora), a + "o_proj.weight": (hidden, attention_heads * v),
        a + "indexer.wq_b.weight": (heads * dim, q_lora), a + "indexer.wk.weight": (dim, hidden), a + "indexer.k_norm.weight": (dim,),
        a + "indexer.k_norm.bias": (dim,), a + "indexer.weights_proj.weight": (heads, hidden),
    }
    random, header, data = np.random.default_rng(1), {}, b""
    for name, shape in shapes.items():
        values = np.ones(shape) if "norm.weight" in name else random.normal(0, shape[-1] ** -0.5, shape)
        raw = values.astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def command(dsv31, folder, depths, tokens, rounds):
    return [dsv31, "bench", "-m", folder, "-p", "1", "-n", str(tokens), "-d", ",".join(map(str, depths)), "-r", str(rounds), "--json"]


def scaling(dsv31, folder, longest, macs_per_key):
    contexts = [4096 << i for i in range(32) if 4096 << i <= longest]
    out = subprocess.run(command(dsv31, folder, contexts, 64, 9), check=True, capture_output=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    seconds = [1 / row["decode_tps"] for row in rows]
    b, a = np.polyfit(contexts, seconds, 1, w=1 / np.array(seconds))
    residuals = [(a + b * c) / s - 1 for c, s in zip(contexts, seconds)]
    for c, s, r in zip(contexts, seconds, residuals):
        print(f"{c:8} tokens: {s * 1e3:8.3f} ms a token, fit {r:+.1%}")
    rate = macs_per_key / b
    ceiling = next(form["macs_per_second"] for form in rows[0]["machine"]["forms"] if form["form"] == "f32*f32")
    print(f"time(c) = {a * 1e3:.3f} ms + {b * 1e9:.2f} ns * c; {rate / 1e9:.1f} G multiply-accumulates a second, {rate / ceiling:.0%} of the ceiling")


def anonymous_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def million(dsv31, folder):
    started, peak = time.monotonic(), 0
    run = subprocess.Popen(command(dsv31, folder, [MILLION], 16, 1), stdout=subprocess.PIPE)
    while run.poll() is None:
        try:
            peak = max(peak, anonymous_bytes(run.pid))
        except FileNotFoundError:
            pass
        time.sleep(0.05)
    assert run.returncode == 0, run.returncode
    result = json.loads(run.stdout.read())
    memory = json.loads(subprocess.run([dsv31, "info", "-m", folder, "--json"], check=True, capture_output=True).stdout)["memory"]
    print(f"{MILLION} tokens in {time.monotonic() - started:.0f} s, then {result['decode_tps']:.1f} tokens/s")
    print(f"peak RssAnon {peak / 2**20:.1f} MiB, planned {memory['total'] / 2**20:.1f} MiB: {peak / memory['total']:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsv31")
    parser.add_argument("--longest", type=int, default=131072)
    parser.add_argument("--million", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if args.million:
            write_model(folder, heads=2, dim=32, topk=256, context=MILLION + 17)
            million(args.dsv31, folder)
        else:
            write_model(folder, heads=16, dim=64, topk=1024, context=1 << 20)
            scaling(args.dsv31, folder, args.longest, macs_per_key=16 * 64)


if __name__ == "__main__":
    main()
