"""Keeps the head of a GGUF: key-values without the tokenizer's arrays and template, and all tensor infos; no tensor data.
usage: strip_gguf.py MODEL.gguf OUT.gguf   (the tests append zeros up to the length that the infos ask for)"""
import struct, sys

data = open(sys.argv[1], 'rb').read()
at = 0
SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

def take(n):
    global at
    at += n
    return data[at - n:at]

def string():
    n = struct.unpack('<Q', take(8))[0]
    return struct.pack('<Q', n) + take(n)

def value(kind):
    if kind == 8:
        return string()
    if kind == 9:
        head = take(12)
        element, count = struct.unpack('<IQ', head)
        if element == 8:
            return head + b''.join(string() for _ in range(count))
        return head + take(SIZE[element] * count)
    return take(SIZE[kind])

magic, version, n_tensors, n_kv = take(4), take(4), struct.unpack('<Q', take(8))[0], struct.unpack('<Q', take(8))[0]
kept = []
for _ in range(n_kv):
    key = string()
    kind = take(4)
    body = value(struct.unpack('<I', kind)[0])
    if not key[8:].startswith(b'tokenizer.'):
        kept.append(key + kind + body)
infos = b''
for _ in range(n_tensors):
    name, dims = string(), take(4)
    infos += name + dims + take(8 * struct.unpack('<I', dims)[0]) + take(12)
head = magic + version + struct.pack('<QQ', n_tensors, len(kept)) + b''.join(kept) + infos
open(sys.argv[2], 'wb').write(head + b'\0' * (-len(head) % 32))
