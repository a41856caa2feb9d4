#include "lib/text/presets.h"

#include "lib/text/scanners.h"

namespace dsv31::inline v1::text {

namespace {

using Text = std::string_view;
using namespace pattern_text;

// The cased letters of the DeepSeek-LLM tokenizer: Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee, Coptic, Glagolitic,
// Deseret, ...
constexpr Text kDeepSeekLetters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373})"
    R"(\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-)"
    R"(\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-)"
    R"(\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50})"
    R"(-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-)"
    R"(\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-)"
    R"(\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-)"
    R"(\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13})"
    R"(-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-)"
    R"(\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";
constexpr Text kDeepSeekPunctuation = R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr Text kEastAsian = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr Text kLineEnd = R"([\r\n])";
constexpr Text kSpaceAtEnd = R"(\s+$)";

constexpr Text kDeepSeekV3Steps[] = {kNumber3, kDeepSeekCjk, kDeepSeekV3};
constexpr Text kDeepSeekLlmSteps[] = {kLineEnd, kDeepSeekLetters, kDeepSeekPunctuation, kSpaceAtEnd, kEastAsian, kNumbers};
constexpr Text kDeepSeekCoderSteps[] = {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kEastAsian, kNumber};
constexpr Text kLlama3Steps[] = {kLlama3};
constexpr Text kQwen2Steps[] = {kQwen2};
constexpr Text kQwen35Steps[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kGpt2Steps[] = {kGpt2};
constexpr Text kSmolLmSteps[] = {kNumber, kGpt2};
constexpr Text kDefaultSteps[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, kNumbers, "[0-9][0-9][0-9]"};
constexpr Text kFalconSteps[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"};
constexpr Text kMiniCpm5Steps[] = {
    kNumber3,
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kTekkenSteps[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr Text kGpt4oSteps[] = {kGpt4o};
constexpr Text kKimiK2Steps[] = {
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kBloomWords = " ?[^(\\s|.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C)]+";
constexpr Text kBloomSteps[] = {kBloomWords};
constexpr Text kVikingSteps[] = {kBloomWords, kNumber};
constexpr Text kBailingSteps[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Text kSeedCoderSteps[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kSuperBpeSteps[] = {kNumbers, R"((?=(\d{3})+(?!\d)))"};
constexpr Text kTinyAyaSteps[] = {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o};
constexpr Text kExaoneMoeSteps[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};

constexpr Preset kDeepSeekV3Preset{kDeepSeekV3Steps}, kDeepSeekLlm{kDeepSeekLlmSteps}, kDeepSeekCoder{kDeepSeekCoderSteps};
constexpr Preset kLlamaBpe{kLlama3Steps, true, true}, kLlama3Plain{kLlama3Steps}, kGlm4{kLlama3Steps, true};
constexpr Preset kQwen2Preset{kQwen2Steps}, kQwen35{kQwen35Steps}, kGpt2Preset{kGpt2Steps}, kSmolLm{kSmolLmSteps};
constexpr Preset kDefault{kDefaultSteps}, kFalcon{kFalconSteps}, kMiniCpm5{kMiniCpm5Steps, true},
    kTekken{kTekkenSteps, true, true};
constexpr Preset kGpt4oPreset{kGpt4oSteps}, kKimiK2{kKimiK2Steps}, kBloom{kBloomSteps}, kViking{kVikingSteps},
    kBailing{kBailingSteps};
constexpr Preset kSeedCoder{kSeedCoderSteps}, kSuperBpe{kSuperBpeSteps}, kTinyAya{kTinyAyaSteps}, kExaoneMoe{kExaoneMoeSteps};

struct Name {
  Text name;
  const Preset* preset;
};

constexpr Name kNames[] = {
    {"deepseek-v3", &kDeepSeekV3Preset},
    {"deepseek3", &kDeepSeekV3Preset},
    {"deepseek-r1", &kDeepSeekV3Preset},
    {"deepseek-v3.1", &kDeepSeekV3Preset},
    {"deepseek-v3.2", &kDeepSeekV3Preset},
    {"hunyuan-dense", &kDeepSeekV3Preset},
    {"joyai-llm", &kDeepSeekV3Preset},
    {"hy_v4", &kDeepSeekV3Preset},
    {"deepseek-llm", &kDeepSeekLlm},
    {"deepseek-coder", &kDeepSeekCoder},
    {"llama-bpe", &kLlamaBpe},
    {"llama3", &kLlamaBpe},
    {"llama-v3", &kLlamaBpe},
    {"falcon3", &kLlamaBpe},
    {"falcon-h1", &kLlamaBpe},
    {"pixtral", &kLlamaBpe},
    {"midm-2.0", &kLlamaBpe},
    {"lfm2", &kLlamaBpe},
    {"jina-v5-nano", &kLlamaBpe},
    {"dbrx", &kLlama3Plain},
    {"smaug-bpe", &kLlama3Plain},
    {"chatglm-bpe", &kLlama3Plain},
    {"glm4", &kGlm4},
    {"glm5", &kGlm4},
    {"minicpm5", &kMiniCpm5},
    {"qwen2", &kQwen2Preset},
    {"deepseek-r1-qwen", &kQwen2Preset},
    {"kormo", &kQwen2Preset},
    {"f2llmv2", &kQwen2Preset},
    {"stablelm2", &kQwen2Preset},
    {"megrez", &kQwen2Preset},
    {"hunyuan", &kQwen2Preset},
    {"solar-open", &kQwen2Preset},
    {"grok-2", &kQwen2Preset},
    {"qwen35", &kQwen35},
    {"gpt-2", &kGpt2Preset},
    {"phi-2", &kGpt2Preset},
    {"jina-es", &kGpt2Preset},
    {"jina-de", &kGpt2Preset},
    {"gigachat", &kGpt2Preset},
    {"jina-v2-es", &kGpt2Preset},
    {"jina-v2-de", &kGpt2Preset},
    {"a.x-4.0", &kGpt2Preset},
    {"mellum", &kGpt2Preset},
    {"modern-bert", &kGpt2Preset},
    {"jina-v1-en", &kGpt2Preset},
    {"jina-v2-code", &kGpt2Preset},
    {"roberta-bpe", &kGpt2Preset},
    {"mpt", &kGpt2Preset},
    {"olmo", &kGpt2Preset},
    {"jais", &kGpt2Preset},
    {"trillion", &kGpt2Preset},
    {"granite-docling", &kGpt2Preset},
    {"exaone4", &kGpt2Preset},
    {"smollm", &kSmolLm},
    {"starcoder", &kSmolLm},
    {"refact", &kSmolLm},
    {"command-r", &kSmolLm},
    {"codeshell", &kSmolLm},
    {"exaone", &kSmolLm},
    {"minerva-7b", &kSmolLm},
    {"mellum2", &kSmolLm},
    {"gpt-4o", &kGpt4oPreset},
    {"llama4", &kGpt4oPreset},
    {"kanana2", &kGpt4oPreset},
    {"talkie", &kGpt4oPreset},
    {"minimax-m2", &kGpt4oPreset},
    {"kimi-k2", &kKimiK2},
    {"tekken", &kTekken},
    {"bloom", &kBloom},
    {"poro-chat", &kBloom},
    {"gpt3-finnish", &kBloom},
    {"viking", &kViking},
    {"bailingmoe", &kBailing},
    {"bailingmoe2", &kBailing},
    {"llada-moe", &kBailing},
    {"seed-coder", &kSeedCoder},
    {"superbpe", &kSuperBpe},
    {"tiny_aya", &kTinyAya},
    {"cohere2moe", &kTinyAya},
    {"exaone-moe", &kExaoneMoe},
    {"falcon", &kFalcon},
    {"default", &kDefault},
};

}  // namespace

const Preset* find_preset(std::string_view name) noexcept {
  for (const Name& n : kNames)
    if (n.name == name) return n.preset;
  return nullptr;
}

}  // namespace dsv31::inline v1::text
