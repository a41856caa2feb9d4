"""The silent-failure traps of these architectures, each with the mistake that it is, put into the sources, and the test that must fail then.

A mistake is a replacement of text that stands in the file exactly once. Numbers group the mistakes of one trap.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Mistake:
    trap: int
    what: str
    file: str
    right: str
    wrong: str
    program: str  # of ctest
    test: str     # a test case in it


DEEPSEEK, GATE, MLA = "lib/model/deepseek.cc", "backends/reference/gate.cc", "backends/reference/mla_attention.cc"
FORMAT, INDEX = "lib/text/format_deepseek.cc", "backends/reference/sparse_index.cc"
SPARSE = "sparse attention equals transformers up to the first tie, 26 tokens into 8 keys a row"
LATENT = "absorbed latent attention agrees with expanded keys and values"
HISTORY = "V3.1 history keeps </think> and drops the thought, in both modes"

MISTAKES = [
    Mistake(1, "latent attention turns halves", DEEPSEEK, "c.rope_interleave ? Pairing::interleaved : Pairing::half_split",
            "c.rope_interleave ? Pairing::half_split : Pairing::interleaved", "model",
            "latent attention pairs neighbours in both containers, unless rope_interleave says otherwise"),
    Mistake(1, "llama's GGUF turns halves", "lib/model/llama.cc", "m.gguf() ? Pairing::interleaved : Pairing::half_split",
            "Pairing::half_split", "model", "llama pairs halves in Hugging Face checkpoints and neighbours in GGUF"),
    Mistake(1, "the indexer turns neighbours", INDEX, "rotate(q + h * dim, op_.qk_rope_head_dim, op_.pairing,",
            "rotate(q + h * dim, op_.qk_rope_head_dim, Pairing::interleaved,", "api", SPARSE),
    Mistake(1, "the indexer's rope dimensions come last", INDEX, "rotate(k, op_.qk_rope_head_dim, op_.pairing,",
            "rotate(k + dim - op_.qk_rope_head_dim, op_.qk_rope_head_dim, op_.pairing,", "api", SPARSE),
    Mistake(2, "a head of q is rope, then nope", MLA,
            "std::copy_n(q, nope, q_nope.row(i));\n        std::copy_n(q + nope, pe, q_pe.row(i));",
            "std::copy_n(q + pe, nope, q_nope.row(i));\n        std::copy_n(q, pe, q_pe.row(i));", "reference", LATENT),
    Mistake(2, "a head of kv_b is v, then k_nope", DEEPSEEK, "stride, 0, c.qk_nope_head_dim,", "stride, c.v_head_dim, c.qk_nope_head_dim,",
            "model", "kv_b is cut by heads, k_nope before v, and k_b is transposed"),
    Mistake(2, "kv_a is k_pe, then the latent", MLA, "std::copy_n(c.row(op_.c, r, width), width, x);",
            "std::copy_n(c.row(op_.c, r, width), width, x);\n      std::rotate(x, x + op_.qk_rope_head_dim, x + width);", "reference", LATENT),
    Mistake(2, "k_pe is normalised", MLA, "kv_norm_(x, op_.kv_lora_rank);",
            "const double before = x[0];\n      kv_norm_(x, op_.kv_lora_rank);\n"
            "      for (std::int64_t d = op_.kv_lora_rank; d < width; ++d) x[d] *= x[0] / before;", "reference", LATENT),
    Mistake(3, "scores are scaled by the cached width", DEEPSEEK, "mla_scale(c.rope, c.head_dim)",
            "mla_scale(c.rope, c.kv_lora_rank + c.qk_rope_head_dim)", "model",
            "the scale of latent attention is that of q's head, not of the cached 576"),
    Mistake(3, "the scale is multiplied by m once", "lib/model/rope.cc", "return scale * m * m;", "return scale * m;", "model",
            "the softmax scale of DeepSeek is 192^-0.5 times the square of m"),
    Mistake(4, "YaRN waits for long contexts", "lib/model/rope.cc", "stretch_yarn(rope, dim, f);\n    return f;",
            "for (float& x : f) x = 1.0f / x;\n    if (dim < 0) stretch_yarn(rope, dim, f);\n    return f;", "model",
            "YaRN frequencies hold for short contexts too, and cos and sin are not scaled in DeepSeek"),
    Mistake(5, "the bias weighs", GATE, "op_.norm_topk_prob ? p[e] / (sum + 1e-20) : p[e]",
            "op_.norm_topk_prob ? choice[e] / (sum + 1e-20) : choice[e]", "reference", "the bias chooses but does not weigh"),
    Mistake(5, "V3 scores a group by its best", GATE, "group[g] = rounded(c[first] + second);", "group[g] = rounded(c[first]);", "reference",
            "groups are kept by their best, or by the sum of their two best"),
    Mistake(5, "V2 scores a group by two", "lib/model/config_hf.cc", "    c.group_score = GroupScore::max;\n",
            "    c.group_score = GroupScore::top2_sum;\n", "model",
            "the correction bias and the groups of V3 choose; V2 has neither bias nor normalisation"),
    Mistake(5, "other groups are masked by zero", GATE, "if (grouped()) keep_best_groups(choice, group, open);",
            "if (grouped()) keep_best_groups(choice, group, open);\n"
            "      for (std::int64_t e = 0; e < experts; ++e)\n        if (open[e] == 0) choice[e] = 0, open[e] = 1;", "reference",
            "experts outside the kept groups lose against negative choices inside"),
    Mistake(5, "the shared expert is scaled", "backends/reference/experts.cc", "sum.row(i)[d] += y.row(i)[d];",
            "sum.row(i)[d] += 2.5 * y.row(i)[d];", "reference", "experts are summed with their weights, the shared one without"),
    Mistake(5, "the factor goes before the normalisation", GATE, "p[e] / (sum + 1e-20)",
            "p[e] / (sum * static_cast<double>(op_.routed_scaling_factor))", "reference", "weights are normalised, then scaled"),
    Mistake(6, "first_k_dense_replace is ignored", "lib/model/config_hf.cc", "for (std::int64_t i = first; i < c.num_hidden_layers; ++i) c.sparse",
            "for (std::int64_t i = first * 0 + 1; i < c.num_hidden_layers; ++i) c.sparse", "model",
            "first_k_dense_replace says which layers are dense"),
    Mistake(7, "weight_scale_inv divides", "backends/reference/matrix.cc", "out[k] *= scales[k / kSide];", "out[k] /= scales[k / kSide];",
            "reference", "block scales multiply the FP8 weights of their 128 x 128 block"),
    Mistake(7, "partial blocks at the edge have no scale", "backends/reference/matrix.cc", "block_cols = (w.desc.cols + kSide - 1) / kSide;",
            "block_cols = w.desc.cols / kSide;", "reference", "block scales multiply the FP8 weights of their 128 x 128 block"),
    Mistake(7, "a scale is looked for in its weight's shard", "lib/io/fp8_scales.cc", "if (scale == nullptr)",
            "if (scale == nullptr || scale->file != t.file)", "io", "S06 an FP8 matrix needs a scale for each block, in any file"),
    Mistake(8, "k_b is not transposed", "lib/model/binding.cc",
            "if (source.transpose)\n    transpose_into(stored.data()", "if (source.transpose)\n    std::copy(stored.begin(), stored.end(), dst);\n"
            "  else if (false)\n    transpose_into(stored.data()", "model", "a bfloat16 kv_b is transposed as it is"),
    Mistake(9, "yarn_log_multiplier is taken as mscale_all_dim", "lib/model/config_gguf.cc",
            'keys.number("rope.scaling.yarn_log_multiplier", 0, 100) * 10)', 'keys.number("rope.scaling.yarn_log_multiplier", 0, 100))', "model",
            "yarn_log_multiplier carries a factor of 0.1"),
    Mistake(10, "head_count_kv = 1 is grouped-query attention", "lib/model/config_gguf.cc",
            'c.num_attention_heads = c.num_key_value_heads = keys.integer("attention.head_count", 1, kMaxHeads);',
            'c.num_attention_heads = c.num_key_value_heads = keys.integer("attention.head_count_kv", 1, kMaxHeads);', "model",
            "head_count_kv = 1 says nothing about the weights of latent attention"),
    Mistake(11, "gemma's 1 is added to GGUF norms", "lib/model/gemma3.cc", "m.gguf() ? 0.0f : 1.0f", "1.0f", "model",
            "gemma's norms are 1 + weight in Hugging Face checkpoints and weight in GGUF"),
    Mistake(11, "gemma's factor is not rounded", "lib/model/assembly.cc", "type == DType::bf16) scale = bf16_to_f32(f32_to_bf16(scale));",
            "type == DType::bf16) scale = scale + 0;", "model", "gemma's embedding factor is rounded to the type of the stored weight"),
    Mistake(12, "a fast turn begins without </think>", FORMAT, "options.thinking.value_or(false) ? kThink : kEndThink);\n  return",
            'options.thinking.value_or(false) ? kThink : std::string_view());\n  return', "text_format", HISTORY),
    Mistake(12, "history loses </think> with the thought", FORMAT, "out.marker(kAssistant).marker(kEndThink);", "out.marker(kAssistant);",
            "text_format", HISTORY),
    Mistake(12, "a turn is opened after tool output", FORMAT, "if (options.add_generation_prompt && !after_output)",
            "if (options.add_generation_prompt)", "text_format", "V3.1 tools: the interface text, calls that abut, and nothing after tool output"),
    Mistake(13, "markers are ASCII", "lib/text/format_text.h", 'kUser = "<\uff5cUser\uff5c>"', 'kUser = "<|User|>"', "text_format", HISTORY),
    Mistake(14, "the text's own begin of sequence stays", "lib/text/tokenizer_encode.cc", "out[1] == vocab.bos) out.erase", "false) out.erase",
            "text_tokenizer", "beginning and end of sequence are added on request, the beginning never twice"),
    Mistake(15, "a look-ahead sees past its piece", "lib/text/scanners.cc",
            "    q += c.length;\n  }\n  return q == end || last == p ? q : last;\n}", "    q += c.length;\n  }\n  return last == p ? q : last;\n}",
            "text_tokenizer", "a look-ahead sees the end of its piece, not the piece behind it"),
    Mistake(16, "eh_proj reads [hidden; embedding]", DEEPSEEK,
            '{{embedded, block.norm({"nextn.enorm", "enorm"}, c.hidden_size, c.rms_norm_eps)},\n'
            '                       {state, block.norm({"nextn.hnorm", "hnorm"}, c.hidden_size, c.rms_norm_eps)}}',
            '{{state, block.norm({"nextn.hnorm", "hnorm"}, c.hidden_size, c.rms_norm_eps)},\n'
            '                       {embedded, block.norm({"nextn.enorm", "enorm"}, c.hidden_size, c.rms_norm_eps)}}', "api_draft",
            "exact logits of the draft layer equal the recorded ones"),
    Mistake(17, "rejected drafts stay in the cache", "lib/api/session.cc", "    timeline.uncache(timeline.size());\n", "", "api_draft",
            "tokens are the same with drafts on, off and randomly gated, and so is what comes after"),
    Mistake(18, "the router stays in blocks", "lib/model/scope.cc", ".decode = t.type != DType::f16 && t.type != DType::bf16});", "});", "model",
            "a router in blocks is decoded to float32"),
    Mistake(19, "the order of the chain is fixed", "lib/session/sampler.cc", "for (SamplerStage s : o.order) me.run(s, position);",
            "for (SamplerStage s : default_sampler_order()) me.run(s, position);", "session", "stages run in the order given"),
    Mistake(20, "the start of a stop string is let go", "lib/session/stop_strings.cc", "n, s, 0, n) == 0) keep = n;", "n, s, 0, n) == 0) keep = 0;",
            "session", "a stop string is found however the text is cut"),
    Mistake(20, "half a character is let go", "lib/text/utf8.cc", "if (n > 0 && p + n == end) break;", "if (n > 4 && p + n == end) break;",
            "text_tokenizer", "a stream holds back half characters and replaces broken ones"),
]
