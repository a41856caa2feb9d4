#!/usr/bin/env python3
"""Holds the arrows of the structure: who may include whom.

include/dsv31 includes only the standard library and itself. lib/ and backends/ never include each other. A folder of lib/ includes
only folders listed above it. Examples see the public headers alone.
"""
import pathlib
import re
import sys
import tempfile

LIB = ["io", "quant", "text", "graph", "model", "sched", "session", "api"]
BACKENDS = ["simd", "reference", "cpu", "quantized", "cuda"]


def violations(root):
    root = pathlib.Path(root)
    found = []
    for path in sorted(p for top in ("include", "lib", "backends", "examples") for p in (root / top).rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".cuh", ".c"):
            continue
        where = path.relative_to(root).parts
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if not m:
                continue
            quoted, target = m.group(1) == '"', m.group(2)
            parts = target.split("/")
            bad = None
            if where[0] == "include":
                if quoted and parts[0] != "dsv31":
                    bad = "public headers include only themselves and std"
                if not quoted and not re.fullmatch(r"[a-z_0-9]+(\.h)?", target):
                    bad = "public headers include only themselves and std"
            elif where[0] == "lib":
                if parts[0] == "backends":
                    bad = "lib never includes backends"
                elif parts[0] == "lib" and LIB.index(parts[1]) > LIB.index(where[1]):
                    bad = f"lib/{where[1]} includes only folders above it"
            elif where[0] == "backends":
                if parts[0] == "lib":
                    bad = "backends never include lib"
                elif parts[0] == "backends" and len(where) > 2 and BACKENDS.index(parts[1]) > BACKENDS.index(where[1]):
                    bad = f"backends/{where[1]} includes only backends above it"
            elif where[0] == "examples" and parts[0] in ("lib", "backends"):
                bad = "examples see only the public headers"
            if bad:
                found.append(f"{'/'.join(where)}:{n}: {target}: {bad}")
    return found


def self_test():
    cases = {
        "include/dsv31/a.h": '#include "lib/io/x.h"',
        "include/dsv31/b.h": "#include <fmt/format.h>",
        "lib/io/c.cc": '#include "lib/quant/x.h"',
        "lib/api/d.cc": '#include "backends/cpu/x.h"',
        "backends/cpu/e.cc": '#include "lib/io/x.h"',
        "backends/simd/f.cc": '#include "backends/cpu/x.h"',
        "examples/g.cc": '#include "lib/io/x.h"',
    }
    fine = {"lib/api/h.cc": '#include "lib/io/x.h"\n#include <vector>', "backends/cpu/i.cc": '#include "backends/simd/x.h"'}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**cases, **fine}.items():
            p = pathlib.Path(folder) / name
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
        found = violations(folder)
    got = sorted(f.split(":")[0] for f in found)
    assert got == sorted(cases), got


if sys.argv[1] == "--self-test":
    self_test()
    sys.exit(0)
problems = violations(sys.argv[1])
print("\n".join(problems))
sys.exit(1 if problems else 0)
