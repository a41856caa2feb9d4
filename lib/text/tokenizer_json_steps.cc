#include "lib/text/tokenizer_json_steps.h"

#include <fmt/format.h>

#include "lib/io/bytes.h"
#include "lib/text/scanners.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::string_view kWhere = "tokenizer.json";
constexpr int kMaxDepth = 8;

using Kind = NormalizerStep::Kind;
using Behavior = SplitStep::Behavior;

[[noreturn]] void refuse(std::string_view part, std::string_view what) {
  throw Error(Code::unsupported, kWhere, fmt::format("{}: got {}, which is not supported", part, what));
}

std::string type_of(const io::Json& step, std::string_view part) {
  if (!step.is_object()) throw Error(Code::format, kWhere, fmt::format("{}: got {}, expected an object", part, step.kind()));
  return step.get_string("type");
}

void check_depth(int depth, std::string_view part) {
  if (depth > kMaxDepth)
    throw Error(Code::limit, kWhere, fmt::format("{}: got sequences nested deeper than {}, expected less", part, kMaxDepth));
}

// Calls fn on each step of a sequence; `list` is the name of the array.
template <class Fn>
void each(const io::Json& step, std::string_view list, const Fn& fn) {
  for (const io::Json& s : step.get_array(list)) fn(s);
}

bool contains_type(const io::Json* step, std::string_view list, std::string_view type, int depth = 0) {
  if (step == nullptr || !step->is_object() || depth > kMaxDepth) return false;
  const std::string t = step->string_or("type", "");
  if (t == type) return true;
  if (t != "Sequence") return false;
  const io::Json* steps = step->find(list);
  if (steps == nullptr || !steps->is_array()) return false;
  for (const io::Json& s : steps->as_array())
    if (contains_type(&s, list, type, depth + 1)) return true;
  return false;
}

Behavior behavior_of(const io::Json& step, std::string_view absent) {
  const std::string s = step.string_or("behavior", absent);
  if (s == "Isolated") return Behavior::isolated;
  if (s == "Removed") return Behavior::removed;
  if (s == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (s == "MergedWithNext") return Behavior::merged_with_next;
  if (s == "Contiguous") return Behavior::contiguous;
  throw Error(
      Code::format, kWhere,
      fmt::format("pre_tokenizer.behavior: got {}, expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous",
                  io::quoted(s)));
}

const io::Json* member(const io::Json& root, std::string_view key) {
  const io::Json* m = root.find(key);
  return m == nullptr || m->is_null() ? nullptr : m;
}

}  // namespace

bool TokenizerJsonSteps::is_byte_level(const io::Json& root) {
  return contains_type(root.find("pre_tokenizer"), "pretokenizers", "ByteLevel") ||
         contains_type(root.find("normalizer"), "normalizers", "ByteLevel") ||
         contains_type(root.find("decoder"), "decoders", "ByteLevel");
}

void TokenizerJsonSteps::read() {
  if (const io::Json* m = member(root_, "normalizer")) normalizer(*m, 0);
  if (const io::Json* m = member(root_, "pre_tokenizer")) pre_tokenizer(*m, 0);
  if (const io::Json* m = member(root_, "post_processor")) post_processor(*m, 0);
  if (const io::Json* m = member(root_, "decoder")) decoder(*m, 0);
  if (v_.model == TokenModel::word_piece) v_.strip_first_space = true;
  settle_space_mark();
}

void TokenizerJsonSteps::normalizer(const io::Json& step, int depth) {
  check_depth(depth, "normalizer");
  const std::string type = type_of(step, "normalizer");
  const auto add = [&](Kind k) { v_.normalizer.push_back({k, {}, {}, true, true}); };
  if (type == "Sequence") {
    each(step, "normalizers", [&](const io::Json& s) { normalizer(s, depth + 1); });
  } else if (type == "NFC") {
    add(Kind::nfc);
  } else if (type == "NFD") {
    add(Kind::nfd);
  } else if (type == "NFKC") {
    add(Kind::nfkc);
  } else if (type == "NFKD") {
    add(Kind::nfkd);
  } else if (type == "Lowercase") {
    add(Kind::lowercase);
  } else if (type == "StripAccents") {
    add(Kind::strip_marks);
  } else if (type == "Strip") {
    v_.normalizer.push_back({Kind::strip, {}, {}, step.bool_or("strip_left", true), step.bool_or("strip_right", true)});
  } else if (type == "Prepend") {
    const std::string& s = step.get_string("prepend");
    if (v_.model == TokenModel::characters && s == kSpaceMark)
      prepends_mark_ = true;
    else
      v_.normalizer.push_back({Kind::prepend, {}, s, true, true});
  } else if (type == "Replace") {
    const io::Json& pattern = step.get_object("pattern");
    const std::string& by = step.get_string("content");
    const io::Json* literal = pattern.find("String");
    if (literal != nullptr && v_.model == TokenModel::characters && literal->as_string() == " " && by == kSpaceMark)
      replaces_space_ = true;
    else if (literal != nullptr)
      v_.normalizer.push_back({Kind::replace, literal->as_string(), by, true, true});
    else
      v_.normalizer.push_back({Kind::replace_pattern, pattern.get_string("Regex"), by, true, true});
  } else if (type == "BertNormalizer") {
    if (step.bool_or("clean_text", true)) add(Kind::bert_clean);
    if (step.bool_or("handle_chinese_chars", true)) add(Kind::bert_cjk);
    const bool lower = step.bool_or("lowercase", true);
    if (step.bool_or("strip_accents", lower)) {
      add(Kind::nfd);
      add(Kind::strip_accents);
    }
    if (lower) add(Kind::lowercase);
  } else if (type != "ByteLevel") {
    refuse("normalizer.type", io::quoted(type));
  }
}

void TokenizerJsonSteps::byte_level(const io::Json& step) {
  if (step.bool_or("add_prefix_space", true)) {
    if (!v_.splits.empty()) refuse("pre_tokenizer.add_prefix_space", "true after another step");
    v_.space_prefix = SpacePrefix::every;
    v_.prefix_unless_space = true;
  }
  if (step.bool_or("use_regex", true))
    v_.splits.push_back({SplitStep::Kind::pattern, std::string(pattern_text::kGpt2), Behavior::isolated, false});
  after_byte_level_ = true;
}

void TokenizerJsonSteps::metaspace(const io::Json& step) {
  if (step.string_or("replacement", kSpaceMark) != kSpaceMark) refuse("pre_tokenizer.replacement", "a text other than U+2581");
  metaspace_ = true;
  const std::string scheme = step.string_or("prepend_scheme", step.bool_or("add_prefix_space", true) ? "always" : "never");
  if (scheme == "always")
    v_.space_prefix = SpacePrefix::every;
  else if (scheme == "first")
    v_.space_prefix = SpacePrefix::first;
  else if (scheme != "never")
    refuse("pre_tokenizer.prepend_scheme", io::quoted(scheme));
  v_.prefix_unless_space = true;
  if (step.bool_or("split", true)) v_.splits.push_back({SplitStep::Kind::literal, " ", Behavior::merged_with_next, false});
}

void TokenizerJsonSteps::split(const io::Json& step) {
  const io::Json& pattern = step.get_object("pattern");
  const bool invert = step.bool_or("invert", false);
  const Behavior behavior = behavior_of(step, "Isolated");
  if (const io::Json* literal = pattern.find("String"))
    v_.splits.push_back({SplitStep::Kind::literal, literal->as_string(), behavior, invert});
  else
    v_.splits.push_back({SplitStep::Kind::pattern, pattern.get_string("Regex"), behavior, invert});
}

void TokenizerJsonSteps::pre_tokenizer(const io::Json& step, int depth) {
  check_depth(depth, "pre_tokenizer");
  const std::string type = type_of(step, "pre_tokenizer");
  if (after_byte_level_ && type != "Sequence") refuse("pre_tokenizer", "a step after ByteLevel");
  if (type == "Sequence") {
    each(step, "pretokenizers", [&](const io::Json& s) { pre_tokenizer(s, depth + 1); });
  } else if (type == "ByteLevel") {
    byte_level(step);
  } else if (type == "Metaspace") {
    metaspace(step);
  } else if (type == "Split") {
    split(step);
  } else if (type == "Digits") {
    v_.splits.push_back({SplitStep::Kind::digits, "",
                         step.bool_or("individual_digits", false) ? Behavior::isolated : Behavior::contiguous, false});
  } else if (type == "Punctuation") {
    v_.splits.push_back({SplitStep::Kind::punctuation, "", behavior_of(step, "Isolated"), false});
  } else if (type == "Whitespace") {
    v_.splits.push_back({SplitStep::Kind::pattern, "\\w+|[^\\w\\s]+", Behavior::removed, true});
  } else if (type == "WhitespaceSplit") {
    v_.splits.push_back({SplitStep::Kind::white_space, "", Behavior::removed, false});
  } else if (type == "BertPreTokenizer") {
    v_.splits.push_back({SplitStep::Kind::white_space, "", Behavior::removed, false});
    v_.splits.push_back({SplitStep::Kind::punctuation, "", Behavior::isolated, false});
  } else if (type == "CharDelimiterSplit") {
    v_.splits.push_back({SplitStep::Kind::literal, step.get_string("delimiter"), Behavior::removed, false});
  } else {
    refuse("pre_tokenizer.type", io::quoted(type));
  }
}

void TokenizerJsonSteps::post_processor(const io::Json& step, int depth) {
  check_depth(depth, "post_processor");
  const std::string type = type_of(step, "post_processor");
  const auto id_of = [&](const std::string& s) {
    const Token id = v_.find(s);
    if (id == kNoToken)
      throw Error(Code::mismatch, kWhere, "post_processor: got a special token that is no token, expected a token");
    return id;
  };
  if (type == "Sequence") {
    each(step, "processors", [&](const io::Json& s) { post_processor(s, depth + 1); });
  } else if (type == "TemplateProcessing") {
    bool before = true;
    each(step, "single", [&](const io::Json& part) {
      const io::Json* special = part.find("SpecialToken");
      if (special == nullptr) {
        before = false;
        return;
      }
      const Token id = id_of(special->get_string("id"));
      (before ? v_.bos : v_.eos) = id;
      (before ? v_.adds_bos : v_.adds_eos) = true;
    });
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto pair = [&](std::string_view key) {
      const io::Json::Array& a = step.get_array(key);
      if (a.empty() || !a[0].is_string())
        throw Error(Code::format, kWhere, fmt::format("post_processor.{}: got no text, expected a text and an id", key));
      return id_of(a[0].as_string());
    };
    v_.bos = pair("cls");
    v_.eos = pair("sep");
    v_.adds_bos = v_.adds_eos = true;
  } else if (type != "ByteLevel") {
    refuse("post_processor.type", io::quoted(type));
  }
}

// What is written is known from the model but for two things: whether U+2581 is a space, and whether a leading one is dropped.
void TokenizerJsonSteps::decoder(const io::Json& step, int depth) {
  check_depth(depth, "decoder");
  const std::string type = type_of(step, "decoder");
  if (type == "Sequence") {
    each(step, "decoders", [&](const io::Json& s) { decoder(s, depth + 1); });
  } else if (type == "Metaspace") {
    v_.decode_space_mark = true;
    v_.strip_first_space =
        step.string_or("prepend_scheme", step.bool_or("add_prefix_space", true) ? "always" : "never") != "never";
  } else if (type == "Replace") {
    const io::Json* literal = step.get_object("pattern").find("String");
    if (literal != nullptr && literal->is_string() && literal->as_string() == kSpaceMark && step.get_string("content") == " ")
      v_.decode_space_mark = true;
  } else if (type == "Strip") {
    if (step.string_or("content", " ") == " " && step.int_or("start", 0) > 0) v_.strip_first_space = true;
  }
}

void TokenizerJsonSteps::settle_space_mark() {
  if (v_.model != TokenModel::characters) return;
  if (prepends_mark_) {
    v_.space_prefix = SpacePrefix::every;
    v_.prefix_unless_space = false;
  }
  if (!replaces_space_ && !metaspace_) {
    if (prepends_mark_) refuse("normalizer", "Prepend without Replace");
    return;
  }
  v_.space_mark = true;
  if (!replaces_space_) return;
  // After the normalizer no space is left for a step to split at; other steps would see U+2581.
  std::erase_if(v_.splits, [](const SplitStep& s) {
    return s.kind == SplitStep::Kind::literal && s.pattern == " " && s.behavior != Behavior::merged_with_next;
  });
  for (const SplitStep& s : v_.splits)
    if (s.kind == SplitStep::Kind::pattern || (s.kind == SplitStep::Kind::literal && !metaspace_))
      refuse("pre_tokenizer", "a pattern over text whose spaces were replaced");
}

}  // namespace dsv31::inline v1::text
