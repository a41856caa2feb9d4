"""Records tests/data/random/deepseek_v32/golden.safetensors: DeepSeek-V3.2 in numpy, float64, from the equations of the paper.

    sparse_reference.py MODEL_FOLDER TRANSFORMERS_GOLDEN OUT

Why not the logits of transformers: many keys score exactly 0 (every head is rectified away), and which of them torch.topk takes depends
on how many columns it is given, future ones included. Here ties go to the lowest position. Given the order that std::nth_element
leaves, which is torch's, the same code repeats the logits of transformers within 3e-5; `transformers.logits` keeps its rows of prompt
2 before the first row that a tie reaches.
"""
import math
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

folder, recorded, out = sys.argv[1:]
W = {k: v.astype(np.float64) for k, v in load_file(folder + "/model.safetensors").items()}
golden = load_file(recorded)
HEADS, NOPE, ROPE, V, RANK, INDEX_HEADS, INDEX_DIM, TOPK, EXPERTS, GROUPS = 4, 16, 8, 24, 32, 4, 16, 8, 8, 4
FACTOR, ORIGINAL, THETA = 4.0, 64, 1e4


def rms(x, weight):
    return weight * (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def mlp(name, x):
    gate = x @ W[name + "gate_proj.weight"].T
    return (gate * sigmoid(gate) * (x @ W[name + "up_proj.weight"].T)) @ W[name + "down_proj.weight"].T


def frequencies():
    def correction(rotations):
        return ROPE * math.log(ORIGINAL / (2 * math.pi * rotations)) / (2 * math.log(THETA))

    low, high = max(math.floor(correction(32)), 0), min(math.ceil(correction(1)), ROPE - 1)
    i = np.arange(ROPE // 2)
    ramp = np.clip((i - low) / (high - low), 0, 1)
    return (THETA ** (-2 * i / ROPE) * ((1 - ramp) + ramp / FACTOR)).astype(np.float32)


def interleaved(x, cos, sin):
    y = x.copy()
    y[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return y


def half_split(x, cos, sin):  # the first ROPE values turn
    a, b = x[..., : ROPE // 2], x[..., ROPE // 2 : ROPE]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos, x[..., ROPE:]], -1)


def attention(p, h, cos, sin):
    n = len(h)
    qr = rms(h @ W[p + "q_a_proj.weight"].T, W[p + "q_a_layernorm.weight"])
    q = (qr @ W[p + "q_b_proj.weight"].T).reshape(n, HEADS, NOPE + ROPE)
    q_pe = interleaved(q[..., NOPE:], cos[:, None], sin[:, None])
    c = h @ W[p + "kv_a_proj_with_mqa.weight"].T
    k_pe = interleaved(c[:, RANK:], cos, sin)
    kv = (rms(c[:, :RANK], W[p + "kv_a_layernorm.weight"]) @ W[p + "kv_b_proj.weight"].T).reshape(n, HEADS, NOPE + V)
    # The indexer: I[t, j] = sum_h w[t, h] relu(q[t, h] . k[j])
    x = p + "indexer."
    index_q = half_split((qr @ W[x + "wq_b.weight"].T).reshape(n, INDEX_HEADS, INDEX_DIM), cos[:, None], sin[:, None])
    k = h @ W[x + "wk.weight"].T
    k = (k - k.mean(-1, keepdims=True)) / np.sqrt(k.var(-1, keepdims=True) + 1e-6)
    index_k = half_split(k * W[x + "k_norm.weight"] + W[x + "k_norm.bias"], cos, sin)
    dots = np.maximum(np.einsum("nhd,td->nht", index_q, index_k), 0)
    scores = np.einsum("nh,nht->nt", h @ W[x + "weights_proj.weight"].T, dots) / math.sqrt(INDEX_HEADS * INDEX_DIM)
    scale = (NOPE + ROPE) ** -0.5 * (0.1 * math.log(FACTOR) + 1) ** 2
    y = np.zeros((n, HEADS, V))
    for t in range(n):
        row = scores[t, : t + 1].astype(np.float32) + np.float32(0)
        seen = np.argsort(-row, kind="stable")[:TOPK]
        for head in range(HEADS):
            s = scale * (kv[seen, head, :NOPE] @ q[t, head, :NOPE] + k_pe[seen] @ q_pe[t, head])
            e = np.exp(s - s.max())
            y[t, head] = (e / e.sum()) @ kv[seen, head, NOPE:]
    return y.reshape(n, HEADS * V) @ W[p + "o_proj.weight"].T


def mixture(p, h):
    n = len(h)
    scores = sigmoid(h @ W[p + "gate.weight"].T)
    choice = scores + W[p + "gate.e_score_correction_bias"]
    kept = np.argsort(-choice.reshape(n, GROUPS, -1).sum(-1), 1, kind="stable")[:, :2]  # groups of two: their sum
    y = mlp(p + "shared_experts.", h)
    for t in range(n):
        open_ = np.isin(np.arange(EXPERTS) // (EXPERTS // GROUPS), kept[t])
        best = np.argsort(-np.where(open_, choice[t], -np.inf), kind="stable")[:3]
        weights = scores[t, best] / (scores[t, best].sum() + 1e-20) * 2.5
        for w, e in zip(weights, best):
            y[t] += w * mlp(f"{p}experts.{e}.", h[t : t + 1])[0]
    return y


def logits(ids):
    x = W["model.embed_tokens.weight"][ids]
    angles = (np.arange(len(ids), dtype=np.float32)[:, None] * frequencies()).astype(np.float64)
    for layer in range(3):
        p = f"model.layers.{layer}."
        x = x + attention(p + "self_attn.", rms(x, W[p + "input_layernorm.weight"]), np.cos(angles), np.sin(angles))
        h = rms(x, W[p + "post_attention_layernorm.weight"])
        x = x + (mlp(p + "mlp.", h) if layer == 0 else mixture(p + "mlp.", h))
    return rms(x, W["model.norm.weight"]) @ W["lm_head.weight"].T


result = {}
for prompt in "012":
    ids = golden[prompt + ".input_ids"]
    result[prompt + ".input_ids"] = ids
    result[prompt + ".logits"] = logits(ids).astype(np.float32)
ids = list(golden["1.input_ids"])
for _ in range(16):
    ids.append(int(logits(np.array(ids))[-1].argmax()))
result["1.greedy"] = np.array(ids[-16:], np.int32)
there, here = golden["2.logits"], result["2.logits"]
untied = int(np.argmax(np.abs(there - here).max(1) > 1e-4 * np.abs(there).max()))
assert untied == 26, untied
result["transformers.logits"] = there[:untied].copy()
save_file(result, out)
