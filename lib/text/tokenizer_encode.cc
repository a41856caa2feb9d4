// Text to tokens: special tokens are cut out first, what lies between is normalised, cut into pieces and merged, fragment by
// fragment.
#include <fmt/format.h>

#include <algorithm>

#include "lib/text/tokenizer_impl.h"

namespace dsv31::inline v1 {

namespace {

using text::SpacePrefix;
using text::TokenModel;

void check_length(std::size_t bytes) {
  if (bytes > text::kMaxTextBytes)
    throw Error(Code::limit, "tokenizer.encode",
                fmt::format("text: got {} bytes, expected at most {}", bytes, text::kMaxTextBytes));
}

// One call of encode.
class Call {
 public:
  Call(const Tokenizer::Impl& impl, std::size_t text_bytes, text::Work& work, std::vector<Token>& out)
      : impl_(impl), work_(work), out_(out), patterns_(impl.splits.make_scratch(text_bytes)) {}

  // Text between special tokens; `first` where the whole text begins with it.
  void fragment(std::string_view raw, bool first) {
    if (raw.empty()) return;
    const text::VocabData& v = impl_.vocab;
    std::string_view s = impl_.normalizer.empty() ? raw : impl_.normalizer.apply(raw, normalised_);
    if (s.empty()) return;
    const bool mark = v.space_mark && s.find(text::kSpaceMark) != std::string_view::npos;
    const bool starts_with_space = s[0] == ' ' || (mark && s.substr(0, text::kSpaceMark.size()) == text::kSpaceMark);
    const bool prefix = (v.space_prefix == SpacePrefix::every || (v.space_prefix == SpacePrefix::first && first)) &&
                        !(v.prefix_unless_space && starts_with_space);
    std::string spaced;
    if (mark || prefix) {
      spaced.reserve(s.size() + 1);
      if (prefix) spaced += ' ';
      for (std::size_t i = 0; i < s.size();) {
        const std::size_t at = mark ? std::min(s.find(text::kSpaceMark, i), s.size()) : s.size();
        spaced.append(s, i, at - i);
        if (at == s.size()) break;
        spaced += ' ';
        i = at + text::kSpaceMark.size();
      }
      s = spaced;
    }
    const auto piece = [&](std::string_view p) {
      if (impl_.words)
        impl_.words->encode(p, out_);
      else
        impl_.pairs->encode(p, merges_, work_, out_);
    };
    impl_.splits.split(s, patterns_.get(), work_, piece);
  }

  // Looks for special tokens in text[from, limit); `begin` is where the fragment that is not encoded yet begins.
  void partition(std::string_view s, std::size_t& begin, std::size_t from, std::size_t limit, bool control) {
    text::SpecialMatcher::Match m;
    while (from < limit && impl_.specials.next(s, from, limit, control, m)) {
      work_.scanned += m.end - from;
      fragment(s.substr(begin, m.begin - begin), begin == 0);
      out_.push_back(m.id);
      begin = from = m.end;
    }
    work_.scanned += limit - std::min(from, limit);
  }

 private:
  const Tokenizer::Impl& impl_;
  text::Work& work_;
  std::vector<Token>& out_;
  std::unique_ptr<text::PatternScratch> patterns_;
  text::MergeScratch merges_;
  std::string normalised_;
};

}  // namespace

std::vector<Token> Tokenizer::Impl::encode(std::string_view s, const EncodeOptions& options, text::Work& work) const {
  check_length(s.size());
  std::vector<Token> out;
  const bool bos = options.bos && vocab.bos != kNoToken;
  if (bos) out.push_back(vocab.bos);
  Call call(*this, s.size(), work, out);
  std::size_t begin = 0;
  if (options.special != Special::none) call.partition(s, begin, 0, s.size(), options.special == Special::all);
  call.fragment(s.substr(begin), begin == 0);
  // The text brought its own: one is enough, two make answers worse.
  if (bos && options.special == Special::all && out.size() > 1 && out[1] == vocab.bos) out.erase(out.begin());
  if (options.eos && vocab.eos != kNoToken) out.push_back(vocab.eos);
  return out;
}

std::vector<Token> Tokenizer::Impl::encode(const PromptText& prompt, text::Work& work) const {
  const std::string_view s = prompt.text;
  check_length(s.size());
  std::size_t end = 0;
  for (const PromptText::Range& r : prompt.trusted) {
    if (r.begin > r.end || r.begin < end || r.end > s.size())
      throw Error(
          Code::argument, "tokenizer.encode",
          fmt::format("trusted: got the range {} to {} after {} in a text of {} bytes, expected disjoint ascending ranges in it",
                      r.begin, r.end, end, s.size()));
    end = r.end;
  }
  std::vector<Token> out;
  Call call(*this, s.size(), work, out);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < prompt.trusted.size();) {
    std::size_t from = prompt.trusted[i].begin, limit = prompt.trusted[i].end;
    for (++i; i < prompt.trusted.size() && prompt.trusted[i].begin == limit; ++i) limit = prompt.trusted[i].end;
    call.partition(s, begin, from, limit, true);
  }
  call.fragment(s.substr(begin), begin == 0);
  return out;
}

std::vector<Token> Tokenizer::encode(std::string_view s, EncodeOptions options) const {
  text::Work work;
  return impl_->encode(s, options, work);
}

std::vector<Token> Tokenizer::encode(const PromptText& prompt) const {
  text::Work work;
  return impl_->encode(prompt, work);
}

}  // namespace dsv31::inline v1
