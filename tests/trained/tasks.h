// What the small trained model was asked and what the reference implementation answered (tests/data/trained/tasks.json:
// transformers, float32, greedy, up to 200 tokens or the end token).
#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "dsv31/dsv31.h"
#include "lib/io/json.h"

namespace dsv31::test {

struct Task {
  std::string name, prompt, answer;
  bool judged = false, correct = false;  // the reference's
  std::vector<Token> prompt_ids, reference_ids;
};

inline std::vector<Token> token_array(const io::Json& list) {
  std::vector<Token> out;
  for (const io::Json& v : list.as_array()) out.push_back(static_cast<Token>(v.as_int()));
  return out;
}

inline std::vector<Task> read_tasks() {
  const auto file = open_file(std::string(DSV31_TEST_DATA) + "/trained/tasks.json");
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read_at(0, text.data(), text.size());
  const io::Json json = io::parse_json(text, "tasks.json");
  std::vector<Task> out;
  for (const io::Json& c : json.get_array("cases")) {
    Task t;
    t.name = c.get_string("task") + "/" + c.get_string("mode");
    t.prompt = c.get_string("prompt");
    t.answer = c.string_or("answer", "");
    t.judged = !c.find("answer")->is_null();
    t.correct = c.bool_or("correct", false);
    t.prompt_ids = token_array(*c.find("prompt_ids"));
    t.reference_ids = token_array(*c.find("reference_ids"));
    out.push_back(std::move(t));
  }
  return out;
}

// The answer as the reference run made it: without the end token.
inline std::vector<Token> answer_ids(Session& session, const Task& task) {
  session.rewind(0);
  session.append(task.prompt_ids);
  auto ids = session.generate({.max_tokens = 200, .sampler = SamplerOptions::greedy()}).tokens;
  if (!ids.empty() && session.model().tokenizer().is_end_of_generation(ids.back())) ids.pop_back();
  return ids;
}

struct Shares {
  double ours = 0, reference = 0;  // of right answers over the judged cases
  std::size_t same_ids = 0;        // cases with the reference's tokens
};

// Answers every case; an answer is right when its text after the thought is the expected one.
inline Shares run_tasks(const Model& model, const ComputeOptions& compute, const char* label) {
  Session session(model, compute);
  Shares out;
  double judged = 0;
  for (const Task& task : read_tasks()) {
    const auto ids = answer_ids(session, task);
    out.same_ids += ids == task.reference_ids;
    if (!task.judged) continue;
    std::string text = model.tokenizer().decode(ids);
    if (const std::size_t end = text.rfind("</think>"); end != std::string::npos) text.erase(0, end + 8);
    ++judged;
    out.ours += text == task.answer;
    out.reference += task.correct;
  }
  std::cout << label << ": " << out.ours << " of " << judged << " answers right, the reference " << out.reference << "; "
            << out.same_ids << " with the same ids\n";
  out.ours /= judged, out.reference /= judged;
  return out;
}

}  // namespace dsv31::test
