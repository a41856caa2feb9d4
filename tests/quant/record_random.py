#!/usr/bin/env python3
"""Prints the table of golden_test.cc "random blocks": FNV-1a of the float32 values that gguf-py gives to 64 pseudo-random blocks.

Needs numpy and gguf (0.19). Bytes are the upper 8 bits of x = x * 1664525 + 1013904223 (mod 2^32), x = 1 at the start; the
upper byte of every half-precision scale is masked with 0xBF, so that all scales are finite."""
import numpy as np
from gguf.constants import GGMLQuantizationType as T
from gguf.quants import dequantize

FORMATS = {"Q4_0": (18, [0]), "Q4_1": (20, [0, 2]), "Q5_0": (22, [0]), "Q5_1": (24, [0, 2]), "Q8_0": (34, [0]), "Q2_K": (84, [80, 82]),
           "Q3_K": (110, [108]), "Q4_K": (144, [0, 2]), "Q5_K": (176, [0, 2]), "Q6_K": (210, [208]), "IQ4_NL": (18, [0]),
           "IQ4_XS": (136, [0]), "MXFP4": (17, []), "F16": (2, [0]), "BF16": (2, [0])}
for name, (size, halves) in FORMATS.items():
    x, data = 1, bytearray()
    for _ in range(64 * size):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        data.append(x >> 24)
    for block in range(64):
        for at in halves:
            data[block * size + at + 1] &= 0xBF
    y = dequantize(np.frombuffer(bytes(data), dtype=np.uint8).reshape(1, -1), T[name]).astype("<f4").tobytes()
    h = 0xCBF29CE484222325
    for byte in y:
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    print(f'      {{DType::{name.lower()}, 0x{h:016X}u}},')
