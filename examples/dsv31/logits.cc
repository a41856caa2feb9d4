#include <memory>

#include "command.h"

namespace cli {

// dsv31 logits: float32 rows of a list of token ids, (tokens or 1, vocab_size).
void add_logits(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    std::string tokens, out;
    bool all = false, mtp = false, json = false;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("logits", "Writes the logits of a list of token ids");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  sub->add_option("--tokens", a->tokens, "Token ids: 1,2,3")->required();
  sub->add_flag("--all", a->all, "A row for every token instead of the last one");
  sub->add_flag("--mtp", a->mtp, "Rows of the draft layer: row j is of tokens j and j + 1, and predicts the one after");
  sub->add_option("--out", a->out, "File for the float32 rows")->required();
  sub->add_flag("--json", a->json, "Print rows, vocab_size and the hash of the last row");
  sub->callback([&action, a] {
    action = [a] {
      auto ids = parse_tokens(a->tokens);
      dsv31::Model model = open_model(a->model, a->mtp);
      dsv31::Session session(model, a->model.compute());
      std::vector<float> rows;
      if (a->mtp) {
        session.append(ids, {.draft_sink = [&](std::int64_t, std::span<const float> row) {
                         rows.insert(rows.end(), row.begin(), row.end());
                       }});
        if (rows.empty()) throw UsageError{"--mtp needs at least two tokens"};
      } else if (a->all) {
        session.append(ids, [&](std::int64_t, std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); });
      } else {
        session.append(ids);
        rows.assign(session.logits().begin(), session.logits().end());
      }
      write_floats(a->out, rows);
      const std::size_t vocab = static_cast<std::size_t>(model.info().vocab_size);
      if (a->json)
        std::printf("{\"rows\": %zu, \"vocab_size\": %zu, \"logits_hash\": \"%s\"}\n", rows.size() / vocab, vocab,
                    logits_hash(std::span<const float>(rows).last(vocab)).c_str());
    };
  });
}

}  // namespace cli
