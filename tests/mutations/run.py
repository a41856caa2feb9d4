#!/usr/bin/env python3
"""Puts each known mistake into the sources, one at a time, and shows that the test named for it fails.

usage: run.py --check                      every mistake still applies, and its test exists (what ctest runs)
       run.py BUILD [--trap N] [--keep-going]   builds and runs; the sources are restored after each. Takes some 20 minutes.
"""
import argparse
import pathlib
import subprocess
import sys

from traps import MISTAKES

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check():
    names = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*_test.cc"))
    bad = [f"{m.what}: stands {n} times in {m.file}" for m in MISTAKES if (n := (ROOT / m.file).read_text(encoding="utf-8").count(m.right)) != 1]
    bad += [f"{m.what}: no test case {m.test!r}" for m in MISTAKES if f'TEST_CASE("{m.test}"' not in names]
    bad += [f"trap {n}: no mistake" for n in range(1, 21) if all(m.trap != n for m in MISTAKES)]
    print("\n".join(bad) or f"{len(MISTAKES)} mistakes apply")
    return 1 if bad else 0


def fails(build, m):
    """Whether the test fails with the mistake in place; None where the sources do not compile."""
    if subprocess.run(["cmake", "--build", build, "--target", f"test_{m.program}"], capture_output=True).returncode:
        return None
    program = next(pathlib.Path(build).rglob(f"test_{m.program}"))
    return subprocess.run([program, m.test.replace(",", "\\,").replace("[", "\\[")], capture_output=True).returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--trap", type=int)
    args = parser.parse_args()
    if args.check or not args.build:
        return check()
    survived = 0
    for m in MISTAKES:
        if args.trap not in (None, m.trap):
            continue
        path = ROOT / m.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(m.right, m.wrong), encoding="utf-8")
        try:
            result = fails(args.build, m)
        finally:
            path.write_text(text, encoding="utf-8")
        survived += result is not True
        print(f"{m.trap:2} {m.what}: {'caught' if result else 'does not compile' if result is None else 'NOT CAUGHT'} by \"{m.test}\"", flush=True)
    print(f"{survived} not caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
