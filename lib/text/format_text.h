// The texts of DeepSeek's formats: control tokens and the instructions for tools. They are an interface with trained weights:
// every byte counts. The bars are U+FF5C and the low lines inside names U+2581, never ASCII.
#pragma once

#include <string_view>

namespace dsv31::inline v1::text::deepseek {

inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>", kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUser = "<｜User｜>", kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kThink = "<think>", kEndThink = "</think>";
inline constexpr std::string_view kCallsBegin = "<｜tool▁calls▁begin｜>", kCallsEnd = "<｜tool▁calls▁end｜>";
inline constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>", kCallEnd = "<｜tool▁call▁end｜>", kSep = "<｜tool▁sep｜>";
inline constexpr std::string_view kOutputsBegin = "<｜tool▁outputs▁begin｜>", kOutputsEnd = "<｜tool▁outputs▁end｜>";
inline constexpr std::string_view kOutputBegin = "<｜tool▁output▁begin｜>", kOutputEnd = "<｜tool▁output▁end｜>";
inline constexpr std::string_view kDsml = "｜DSML｜";

// V3.1: after the list of tools.
extern const std::string_view kToolsV31;
// V3.2: before and after the list of tools.
extern const std::string_view kToolsV32Head, kToolsV32Tail;
// V3.2: before the schema of a response.
extern const std::string_view kResponseFormat;

}  // namespace dsv31::inline v1::text::deepseek
