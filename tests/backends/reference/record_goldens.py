# Writes tests/data/reference_goldens.txt: what other formulations of the ops give, in float64 numpy. They are those of the model
# implementations: rotate_half on whole heads, latent attention with expanded keys and values, routing by masks and argsort.
# Run: python record_goldens.py > ../../data/reference_goldens.txt
import numpy as np


class Draw:  # the same numbers as Draw in golden_test.cc
    def __init__(self, seed):
        self.state = seed

    def __call__(self, *shape):
        out = np.empty(int(np.prod(shape)))
        for i in range(out.size):
            self.state = (self.state * 1664525 + 1013904223) % 2**32
            out[i] = ((self.state >> 8) & 0xFFFF) / 32768 - 1
        return out.reshape(shape)


def write(name, values):
    print(name, values.size, *("%.10g" % v for v in values.reshape(-1)))


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, weight, eps):
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rope():
    draw, n, heads, kv_heads, dim, first = Draw(1), 3, 4, 2, 8, 5
    q, k, v = draw(n, heads, dim), draw(n, kv_heads, dim), draw(n, kv_heads, dim)
    q_norm, k_norm = draw(dim), draw(dim)
    inv_freq = np.float32([1, 0.5, 0.25, 0.125])
    angle = np.outer(np.arange(first, first + n), inv_freq)
    emb = np.concatenate([angle, angle], -1)[:, None, :]
    rotate_half = lambda x: np.concatenate([-x[..., dim // 2:], x[..., : dim // 2]], -1)
    q, k = rms(q, q_norm, 1e-5), rms(k, k_norm, 1e-5)
    write("rope_q", q * np.cos(emb) + rotate_half(q) * np.sin(emb))
    k = k * np.cos(emb) + rotate_half(k) * np.sin(emb)
    write("rope_cached", np.concatenate([k.reshape(n, -1), v.reshape(n, -1)], -1))


def attention(name, window, softcap):
    draw, n, past, heads, kv_heads, dim = Draw(2), 4, 6, 6, 2, 8
    q, cached = draw(n, heads, dim) * 4, draw(past + n, 2, kv_heads, dim)
    k, v = (np.repeat(cached[:, i], heads // kv_heads, axis=1) for i in (0, 1))  # repeat_kv
    scores = np.einsum("rhd,thd->hrt", q, k) * np.float64(np.float32(0.35))
    if softcap:
        scores = np.tanh(scores / softcap) * softcap
    row, key = np.arange(past, past + n)[:, None], np.arange(past + n)[None, :]
    mask = key > row if not window else (key > row) | (key <= row - window)
    scores = np.where(mask, -np.inf, scores)
    write(name, np.einsum("hrt,thd->rhd", softmax(scores), v))


def mla():
    draw, n, heads, rank, nope, pe, v_dim = Draw(3), 5, 3, 6, 4, 4, 5
    q, c = draw(n, heads, nope + pe) * 2, draw(n, rank + pe)
    k_b, v_b, norm = draw(heads, rank, nope), draw(heads, v_dim, rank), draw(rank)
    angle = np.outer(np.arange(n), np.float32([1, 0.25]))
    turn = np.exp(1j * angle)  # interleaved pairs as complex numbers
    rotate = lambda x, t: np.stack([((x[..., 0::2] + 1j * x[..., 1::2]) * t).real, ((x[..., 0::2] + 1j * x[..., 1::2]) * t).imag], -1).reshape(x.shape)
    latent, k_pe = rms(c[:, :rank], norm, 1e-6), rotate(c[:, rank:], turn)
    k_nope = np.einsum("hrd,tr->thd", k_b, latent)
    value = np.einsum("hvr,tr->thv", v_b, latent)
    key = np.concatenate([k_nope, np.repeat(k_pe[:, None], heads, 1)], -1)
    query = np.concatenate([q[..., :nope], rotate(q[..., nope:], turn[:, None])], -1)
    scores = np.einsum("rhd,thd->hrt", query, key) * 0.5
    scores = np.where(np.tril(np.ones((n, n))) == 0, -np.inf, scores)
    write("mla", np.einsum("hrt,thv->rhv", softmax(scores), value))


def gate():
    draw, n, hidden, experts, groups, kept, k = Draw(4), 6, 10, 16, 4, 2, 3
    x, weight, bias = draw(n, hidden), draw(experts, hidden), draw(experts) * 0.25
    p = 1 / (1 + np.exp(-(x @ weight.T)))
    choice = p + bias
    group_score = np.sort(choice.reshape(n, groups, -1), -1)[..., -2:].sum(-1)
    best = np.argsort(-group_score, -1, kind="stable")[:, :kept]
    mask = np.zeros((n, groups))
    np.put_along_axis(mask, best, 1, -1)
    choice = np.where(np.repeat(mask, experts // groups, -1) == 1, choice, -np.inf)
    ids = np.sort(np.argsort(-choice, -1, kind="stable")[:, :k], -1)
    w = np.take_along_axis(p, ids, -1)
    write("gate_ids", ids.astype(np.float64))
    write("gate_weights", w / (w.sum(-1, keepdims=True) + 1e-20) * 2.5)


def experts():
    draw, n, hidden, width, shared, count = Draw(5), 4, 6, 5, 7, 4
    x, norm = draw(n, hidden), draw(hidden)
    gate, up, down = draw(count, width, hidden), draw(count, width, hidden), draw(count, hidden, width)
    s_gate, s_up, s_down = draw(shared, hidden), draw(shared, hidden), draw(hidden, shared)
    ids, weights = np.array([[0, 1], [1, 3], [0, 3], [2, 3]]), draw(n, 2)
    h = rms(x, norm, 1e-6)
    mlp = lambda g, u, d, y: (y @ g.T / (1 + np.exp(-(y @ g.T))) * (y @ u.T)) @ d.T
    out = x + mlp(s_gate, s_up, s_down, h)
    for r in range(n):
        for e, w in zip(ids[r], weights[r]):
            out[r] += w * mlp(gate[e], up[e], down[e], h[r])
    write("experts", out)


rope()
attention("attention", 0, 0)
attention("attention_window_softcap", 3, 2.0)
mla()
gate()
experts()
