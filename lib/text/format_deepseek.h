// Prompts of DeepSeek V2, V3, R1, V3.1 and V3.2, written directly. V3.2 ships no template at all, the templates of the others
// leave out the tools, and a loop in C++ is easier to hold to its golden texts than an interpreter.
#pragma once

#include <vector>

#include "dsv31/chat.h"

namespace dsv31::inline v1::text::deepseek {

// Throw argument (role, tool call arguments, kwargs), format (tools are no JSON), unsupported (tools of V2, V3 and R1).
PromptText render_v2(const std::vector<Message>& messages, const ChatOptions& options);
PromptText render_v3(const std::vector<Message>& messages, const ChatOptions& options);
PromptText render_r1(const std::vector<Message>& messages, const ChatOptions& options);
PromptText render_v3_1(const std::vector<Message>& messages, const ChatOptions& options);
PromptText render_v3_2(const std::vector<Message>& messages, const ChatOptions& options);

}  // namespace dsv31::inline v1::text::deepseek
