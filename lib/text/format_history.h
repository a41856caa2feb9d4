// The prompt of a conversation whose answers were sampled: text from the format, tokens from the model.
//
// Rendering an answer's text and tokenising it again rarely gives the tokens that were sampled, and every difference throws the
// cache away from there on. So the history is rendered with a placeholder in place of each sampled answer, cut at the
// placeholders, and only the texts between are tokenised. Which thoughts stay is the format's decision and shows in the same way:
// a placeholder of a thought that is not in the rendered text was dropped. This works with any template that puts an answer's
// content through unchanged.
#pragma once

#include <functional>
#include <vector>

#include "dsv31/chat.h"

namespace dsv31::inline v1::text {

// What the placeholder of a sampled answer begins with when its history is rendered: U+E000, private use.
inline constexpr std::string_view kPlaceholder = "\xEE\x80\x80";

struct Turn {
  Message message;
  bool sampled = false;
  bool has_thought = false;       // of a sampled answer
  bool opens_thought = false;     // its tokens begin with <think>, the prompt did not
  std::size_t content_begin = 0;  // index in tokens of the first one after the thought
  std::vector<Token> tokens{};    // as sampled, without the token that ended the generation
};

// A run of the prompt: text, or the tokens of turn `turn` from `first` on.
struct PromptPiece {
  bool is_text = true;
  PromptText text{};
  std::size_t turn = 0, first = 0;  // of a text piece: the turn that it leads to, turns.size() for the last one
};

struct PromptLayout {
  std::vector<PromptPiece> pieces;
  bool rerendered = false;  // the format moved or changed answers: one piece, answers as text
};

using Render = std::function<PromptText(const std::vector<Message>&)>;

// Throws what `render` throws.
PromptLayout lay_out(const std::vector<Turn>& turns, const Render& render);

// The message that byte `at` of a text piece belongs to: `first` is the first turn after the answer before it.
std::size_t message_at(const std::vector<Turn>& turns, const PromptPiece& piece, std::size_t first, std::size_t at);

// Whether a prompt's own text ends in an open <think>.
bool ends_in_thought(const PromptText& prompt);

}  // namespace dsv31::inline v1::text
