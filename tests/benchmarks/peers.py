#!/usr/bin/env python3
"""Speed of dsv31 and llama.cpp on the same GGUF files, as the table of docs/performance.md.

usage: peers.py --dsv31 build/bin/dsv31 [-t 2] [-p 512] [-n 64] [-d 0] [-r 5] [--llama-bench "PROGRAM [arguments]"] MODEL.gguf ...

Rounds are interleaved (peer, dsv31, the other build, peer, ...) and figures are medians; a ratio is the median of the ratios of the
rounds, above 1 where dsv31 is faster. Both sides get the same token ids, decode follows the prompt, the cache is f16, the files are
read into memory. llama.cpp comes from the Python package llama-cpp-python (without it only dsv31 is measured); --llama-bench adds
another build by its own program. Run nothing else meanwhile: a round in which the machine took more than 1 % of the time for others
is repeated, twice at most.
"""
import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import time


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+")
    ap.add_argument("--dsv31", required=True)
    ap.add_argument("--llama-bench")
    for flag, default in (("-t", os.cpu_count()), ("-p", 512), ("-n", 64), ("-d", 0), ("-r", 5)):
        ap.add_argument(flag, type=int, default=default)
    return ap.parse_args()


def token_ids(n, salt, vocab):
    """What `dsv31 bench` feeds: ids spread over the vocabulary."""
    return [(i * 7919 + salt * 104729) % max(1, vocab - 300) + min(100, vocab - 1) for i in range(n)]


class LlamaCpp:
    def __init__(self, path, a):
        import llama_cpp as lib
        self.lib, self.a = lib, a
        self.quiet = lib.llama_log_callback(lambda *_: None)
        lib.llama_log_set(self.quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        mp = lib.llama_model_default_params()
        mp.use_mmap = False
        self.model = lib.llama_model_load_from_file(path.encode(), mp)
        if not self.model:
            raise RuntimeError("llama.cpp does not read it")
        cp = lib.llama_context_default_params()
        cp.n_ctx, cp.n_batch, cp.n_ubatch = a.d + a.p + a.n + 16, 2048, 512
        cp.n_threads = cp.n_threads_batch = a.t
        self.context = lib.llama_init_from_model(self.model, cp)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))

    def feed(self, ids):
        for at in range(0, len(ids), 2048):  # n_batch; more at a time ends the process
            part = ids[at:at + 2048]
            array = (self.lib.llama_token * len(part))(*part)
            if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(array, len(part))) != 0:
                raise RuntimeError("llama_decode failed")
        self.lib.llama_synchronize(self.context)

    def round(self):
        a = self.a
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        if a.d:
            self.feed(token_ids(a.d, 51, self.vocab))
        start = time.perf_counter()
        self.feed(token_ids(a.p, 1, self.vocab))
        prefill = a.p / (time.perf_counter() - start)
        start = time.perf_counter()
        for token in token_ids(a.n, 10, self.vocab):
            self.feed([token])
        return prefill, a.n / (time.perf_counter() - start)

    def close(self):
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)

    @staticmethod
    def version():
        import llama_cpp
        info = llama_cpp.llama_print_system_info().decode().strip()
        return f"llama.cpp of llama-cpp-python {llama_cpp.__version__}: n_batch 2048, n_ubatch 512, no mmap; {info}"


def dsv31(path, a):
    command = [a.dsv31, "bench", "-m", path, "-t", str(a.t), "-p", str(a.p), "-n", str(a.n), "-d", str(a.d), "-r", "1", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def llama_bench(path, a):
    command = a.llama_bench.split() + ["-m", path, "-t", str(a.t), "-p", str(a.p), "-n", str(a.n), "-r", "1", "-o", "json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return (next(r["avg_ts"] for r in rows if r["n_gen"] == 0), next(r["avg_ts"] for r in rows if r["n_prompt"] == 0))


def stolen():
    """Jiffies that the hypervisor gave to others, and all of them."""
    try:
        fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        return fields[7], sum(fields)
    except (OSError, IndexError):
        return 0, 1


def measured(path, a, peer):
    rounds = []
    retries = 2 * a.r
    if peer:
        peer.round()  # warms up
    while len(rounds) < a.r:
        before = stolen()
        row = {"peer": peer.round() if peer else None, "own": dsv31(path, a), "other": llama_bench(path, a) if a.llama_bench else None}
        after = stolen()
        if retries > 0 and after[0] - before[0] > 0.01 * max(1, after[1] - before[1]):
            retries -= 1
            continue
        rounds.append(row)
    return rounds


def line(path, rounds):
    own = [(r["own"]["prefill_tps"], r["own"]["decode_tps"]) for r in rounds]

    def ratio(name, k):
        if rounds[0][name] is None:
            return "–"
        return f"{statistics.median(o[k] / r[name][k] for o, r in zip(own, rounds)):.2f}"

    def share(speed, limit, k):
        limits = [r["own"].get(limit, 0) for r in rounds]
        return f"{100 * statistics.median(o[k] / l for o, l in zip(own, limits)):.0f} %" if all(limits) else "–"

    hashes = {r["own"]["logits_hash"] for r in rounds}
    cells = [os.path.basename(path)]
    for k, limit in ((0, "prefill_limit_tps"), (1, "decode_limit_tps")):
        cells += [f"{statistics.median(o[k] for o in own):,.0f}", share(own, limit, k), ratio("peer", k), ratio("other", k)]
    cells.append(hashes.pop() if len(hashes) == 1 else "NOT THE SAME IN ALL ROUNDS")
    return "| " + " | ".join(cells) + " |"


def processor():
    try:
        names = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
        return f"{len(names)} x {names[0]}"
    except (OSError, IndexError):
        return platform.processor()


def main():
    a = arguments()
    try:
        import llama_cpp  # noqa: F401
        peers = LlamaCpp.version()
    except ImportError:
        peers = "no llama-cpp-python"
    lines, machine = [], None
    for path in a.models:
        peer = None
        if not peers.startswith("no "):
            try:
                peer = LlamaCpp(path, a)
            except RuntimeError:
                pass  # its cells stay empty
        rounds = measured(path, a, peer)
        if peer:
            peer.close()
        machine = rounds[-1]["own"].get("machine", machine)
        lines.append(line(path, rounds))
    print(f"Machine: {processor()}, {platform.system()} {platform.release()}.")
    if machine:
        forms = ", ".join(f"{f['form']} {f['macs_per_cycle']:.0f}" for f in machine["forms"])
        print(f"{machine['isa']}, {machine['threads']} threads at {machine['cycles_per_second'] / 1e9:.2f} GHz; reads "
              f"{machine['read_bandwidth_one'] / 1e9:.1f} GB/s with one thread, {machine['read_bandwidth'] / 1e9:.1f} with all; barrier "
              f"{machine['barrier_seconds'] * 1e6:.1f} us; multiply-accumulates a cycle and core: {forms or 'not measured'}.")
    print(f"Peer: {peers}.")
    if a.llama_bench:
        print(f"Other: `{a.llama_bench}`.")
    print(f"Prompt {a.p} after {a.d}, then {a.n} one by one; {a.t} threads, f16 cache; medians of {a.r} interleaved rounds.\n")
    print("| model | prefill, tokens/s | of its limit | ratio | to other | decode, tokens/s | of its limit | ratio | to other | logits |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))


main()
