#include "lib/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <new>

#include "lib/text/unicode.h"
#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

namespace {

using Kind = NormalizerStep::Kind;

// Characters that are their own normal form and never combine with one before them.
bool inert(std::uint32_t c, bool compatibility) noexcept {
  if (c < 0x80) return true;
  if (compatibility) return false;
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3041 && c <= 0x3093) || (c >= 0x30A1 && c <= 0x30F3);
}

// Kana with a voiced form are changed by decomposition, Latin-1 letters too; only composing leaves them alone.
bool inert_when_decomposed(std::uint32_t c) noexcept { return c < 0x80 || (c >= 0x4E00 && c <= 0x9FFF); }

// One stretch of characters that need work, decomposed, sorted, and composed where asked.
void normalise_stretch(std::string_view text, bool compose, bool compatibility, std::vector<utf8proc_int32_t>& codes,
                       std::string& out) {
  codes.clear();
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  utf8proc_int32_t one[32];
  int boundary = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Character c = utf8_decode(text.data() + i);
    const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), one, 32, options, &boundary);
    if (n < 0 || n > 32) throw Error(Code::unsupported, "tokenizer", "normalizer: got a character that cannot be decomposed");
    codes.insert(codes.end(), one, one + n);
    i += c.length;
  }
  const auto combining = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (std::size_t i = 0; i < codes.size();) {
    if (combining(codes[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t j = i;
    while (j < codes.size() && combining(codes[j]) != 0) ++j;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(i), codes.begin() + static_cast<std::ptrdiff_t>(j),
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return combining(a) < combining(b); });
    i = j;
  }
  std::size_t count = codes.size();
  if (compose && count > 0) {
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(count),
                                                        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n >= 0) count = static_cast<std::size_t>(n);
  }
  for (std::size_t i = 0; i < count; ++i) utf8_append(out, static_cast<std::uint32_t>(codes[i]));
}

// Drops all marks, or only those that take no space.
void strip_marks(std::string_view text, bool only_non_spacing, std::string& out) {
  for (std::size_t i = 0; i < text.size();) {
    const Character c = utf8_decode(text.data() + i);
    const bool drop = only_non_spacing ? utf8proc_category(static_cast<utf8proc_int32_t>(c.code)) == UTF8PROC_CATEGORY_MN
                                       : (class_of(c.code) & kMark) != 0;
    if (!drop) out.append(text, i, c.length);
    i += c.length;
  }
}

void lowercase(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size();) {
    const Character c = utf8_decode(text.data() + i);
    if (c.code == 0x130)
      out += "i\xCC\x87";  // the one lower case of two characters
    else
      utf8_append(out, static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))));
    i += c.length;
  }
}

// Drops NUL, U+FFFD and control characters but tabs and line ends; white space becomes a space.
void bert_clean(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size();) {
    const Character c = utf8_decode(text.data() + i);
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c.code));
    const bool control = c.code == 0 || c.code == 0xFFFD || category == UTF8PROC_CATEGORY_CC ||
                         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
    if (c.code == '\t' || c.code == '\n' || c.code == '\r' || (!control && (class_of(c.code) & kSpace)))
      out += ' ';
    else if (!control)
      out.append(text, i, c.length);
    i += c.length;
  }
}

bool bert_ideograph(std::uint32_t c) noexcept {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void bert_space_ideographs(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size();) {
    const Character c = utf8_decode(text.data() + i);
    const bool ideograph = bert_ideograph(c.code);
    if (ideograph) out += ' ';
    out.append(text, i, c.length);
    if (ideograph) out += ' ';
    i += c.length;
  }
}

void replace(std::string_view text, std::string_view pattern, std::string_view by, std::string& out) {
  for (std::size_t i = 0;;) {
    const std::size_t at = text.find(pattern, i);
    out.append(text, i, std::min(at, text.size()) - i);
    if (at == std::string_view::npos) return;
    out += by;
    i = at + pattern.size();
  }
}

}  // namespace

void append_normal_form(std::string_view text, bool compose, bool compatibility, std::string& out) {
  std::vector<utf8proc_int32_t> codes;
  const auto alone = [&](std::uint32_t c) {
    return compose ? inert(c, compatibility) : inert_when_decomposed(c) && (c < 0x80 || !compatibility);
  };
  for (std::size_t i = 0; i < text.size();) {
    // Inert characters are copied, but for the last before others, which may combine with it.
    std::size_t copied = i, last = i, j = i;
    while (j < text.size()) {
      const Character c = utf8_decode(text.data() + j);
      if (!alone(c.code)) break;
      last = j;
      j += c.length;
    }
    copied = j == text.size() ? j : last;
    out.append(text, i, copied - i);
    if (j == text.size()) return;
    std::size_t k = j;
    while (k < text.size()) {
      const Character c = utf8_decode(text.data() + k);
      if (alone(c.code)) break;
      k += c.length;
    }
    normalise_stretch(text.substr(copied, k - copied), compose, compatibility, codes, out);
    i = k;
  }
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  if (steps.size() > 32) throw Error(Code::limit, "tokenizer", "normalizer: got more than 32 steps, expected at most that");
  for (const NormalizerStep& s : steps) {
    if (s.kind == Kind::replace && s.pattern.empty())
      throw Error(Code::format, "tokenizer", "normalizer: got an empty text to replace, expected one byte at least");
    steps_.push_back({s, nullptr});
    if (s.kind == Kind::replace_pattern)
      steps_.back().pattern = std::make_unique<Pattern>(translate_pattern(s.pattern, "tokenizer"), "tokenizer");
  }
}

void Normalizer::apply_step(const Step& s, std::string_view text, std::string& out) const {
  switch (s.step.kind) {
    case Kind::nfc:
      return append_normal_form(text, true, false, out);
    case Kind::nfd:
      return append_normal_form(text, false, false, out);
    case Kind::nfkc:
      return append_normal_form(text, true, true, out);
    case Kind::nfkd:
      return append_normal_form(text, false, true, out);
    case Kind::lowercase:
      return lowercase(text, out);
    case Kind::strip_marks:
      return strip_marks(text, false, out);
    case Kind::strip_accents:
      return strip_marks(text, true, out);
    case Kind::replace:
      return replace(text, s.step.pattern, s.step.text, out);
    case Kind::bert_clean:
      return bert_clean(text, out);
    case Kind::bert_cjk:
      return bert_space_ideographs(text, out);
    case Kind::replace_pattern: {
      PatternScratch scratch(pattern_budget(text.size()));
      std::size_t from = 0, begin = 0, end = 0, copied = 0;
      while (from <= text.size() && s.pattern->search(text, from, scratch, begin, end)) {
        out.append(text, copied, begin - copied);
        out += s.step.text;
        copied = end;
        from = end > begin ? end : end + (end < text.size() ? utf8_length(text[end]) : 1);
      }
      out.append(text, copied);
      return;
    }
    case Kind::prepend:
    case Kind::strip:
      return;  // of the whole text: see apply()
  }
}

std::string_view Normalizer::apply(std::string_view text, std::string& storage) const {
  std::string next;
  std::string_view current = text;
  for (const Step& s : steps_) {
    next.clear();
    next.reserve(current.size());
    if (s.step.kind == Kind::prepend) {
      if (!current.empty()) next.append(s.step.text).append(current);
    } else if (s.step.kind == Kind::strip) {
      std::size_t begin = 0, end = current.size();
      const char* const stop = current.data() + current.size();
      const auto space = [&](std::size_t at) {
        return utf8_valid_length(current.data() + at, stop) != 0 && (classify(current.data() + at).bits & kSpace) != 0;
      };
      while (s.step.left && begin < end && space(begin)) begin += utf8_length(current[begin]);
      while (s.step.right && end > begin) {
        std::size_t at = end - 1;
        while (at > begin && (static_cast<unsigned char>(current[at]) & 0xC0) == 0x80) --at;
        if (!space(at)) break;
        end = at;
      }
      next = current.substr(begin, end - begin);
    } else {
      for (std::size_t from = 0; from < current.size();) {
        bool valid = false;
        const std::size_t to = utf8_run(current, from, valid);
        if (valid)
          apply_step(s, current.substr(from, to - from), next);
        else
          next.append(current, from, to - from);
        from = to;
      }
    }
    if (next == current) continue;
    storage.swap(next);
    current = storage;
  }
  return current;
}

}  // namespace dsv31::inline v1::text
