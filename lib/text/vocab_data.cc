#include "lib/text/vocab_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/io/bytes.h"

namespace dsv31::inline v1::text {

namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Generation stops at these wherever a vocabulary has them. A model may name one as its end of turn without saying so in any key.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<turn|>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",
    // fill-in-the-middle: padding, repository and file separators
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
};

}  // namespace

std::optional<std::uint8_t> parse_byte_token(std::string_view s) noexcept {
  if (s.size() != 6 || s.substr(0, 3) != "<0x" || s[5] != '>') return std::nullopt;
  const int high = hex_digit(s[3]), low = hex_digit(s[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

void VocabData::add(std::string_view s, TokenKind kind, std::string_view where) {
  const std::size_t id = kinds.size();
  if (id >= kMaxTokens)
    throw Error(Code::limit, where, fmt::format("tokens: got more than {}, expected at most that", kMaxTokens));
  if (s.size() > kMaxTokenBytes)
    throw Error(Code::format, where, fmt::format("token {}: got {} bytes, expected at most {}", id, s.size(), kMaxTokenBytes));
  if (!io::valid_utf8(s)) throw Error(Code::format, where, fmt::format("token {}: got invalid UTF-8, expected UTF-8", id));
  if (texts.size() + s.size() > UINT32_MAX)
    throw Error(Code::limit, where, fmt::format("token {}: got more than 4 GiB of token texts, expected less", id));
  texts.append(s);
  ends.push_back(static_cast<std::uint32_t>(texts.size()));
  kinds.push_back(kind);
  if (s.empty()) return;
  const Token taken = by_text.insert(s, static_cast<Token>(id), [this](Token t) { return text(t); });
  if (taken != kNoToken)
    throw Error(Code::format, where, fmt::format("token {}: got the text of token {}, expected a text of its own", id, taken));
}

void VocabData::finish(std::string_view where) {
  if (size() == 0) throw Error(Code::format, where, "tokens: got none, expected at least one");
  for (std::size_t i = 0; i < size(); ++i) {
    if (kinds[i] != TokenKind::byte) continue;
    if (!parse_byte_token(text(static_cast<Token>(i))))
      throw Error(Code::format, where,
                  fmt::format("token {}: got a malformed byte token, expected <0xXX> with two hexadecimal digits", i));
  }

  for (const std::string_view s : kEndTexts) {
    const Token id = find(s);
    if (id == kNoToken) continue;
    end_of_generation.push_back(id);
    // Text of a user must not be able to end a turn.
    kinds[static_cast<std::size_t>(id)] = TokenKind::control;
  }
  // Where <s> is a control token, </s> is one too, whatever the file says; elsewhere the two are HTML tags.
  if (const Token start = find("<s>"), end = find("</s>");
      end != kNoToken && start != kNoToken && kinds[static_cast<std::size_t>(start)] == TokenKind::control) {
    kinds[static_cast<std::size_t>(end)] = TokenKind::control;
    end_of_generation.push_back(end);
  }
  if (eos != kNoToken) end_of_generation.push_back(eos);
  std::sort(end_of_generation.begin(), end_of_generation.end());
  end_of_generation.erase(std::unique(end_of_generation.begin(), end_of_generation.end()), end_of_generation.end());
  // In the harmony format <|end|> closes a message inside a turn; <|return|> and <|call|> close the turn.
  const auto ends_at = [this](std::string_view s) {
    return std::binary_search(end_of_generation.begin(), end_of_generation.end(), find(s));
  };
  if (ends_at("<|end|>") && ((ends_at("<|return|>") && ends_at("<|call|>")) || (ends_at("<|calls|>") && ends_at("<|flush|>"))))
    std::erase(end_of_generation, find("<|end|>"));

  const auto matched = [](TokenKind k) {
    return k == TokenKind::control || k == TokenKind::user_defined || k == TokenKind::unknown;
  };
  std::vector<bool> listed(size(), false);
  for (const SpecialToken& s : specials) listed[static_cast<std::size_t>(s.id)] = true;
  for (std::size_t i = 0; i < size(); ++i)
    if (matched(kinds[i]) && !listed[i]) specials.push_back({static_cast<Token>(i), false, false, false});
  for (const SpecialToken& s : specials) {
    const std::size_t bytes = text(s.id).size();
    if (bytes == 0 || bytes > kMaxSpecialTokenBytes)
      throw Error(Code::format, where,
                  fmt::format("special token {}: got {} bytes, expected 1 to {}", s.id, bytes, kMaxSpecialTokenBytes));
  }
}

}  // namespace dsv31::inline v1::text
