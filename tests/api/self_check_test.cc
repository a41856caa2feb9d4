// The model's own check: it passes on every architecture, covers what it says, and fails by name where something is wrong.
#include <algorithm>
#include <set>

#include "lib/api/model_impl.h"
#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

std::string faults(const SelfCheckReport& report) {
  std::string out;
  for (const SelfCheckRow& r : report.rows)
    if (!r.ok)
      out += r.check + " " + r.arithmetic + " " + r.what + " " + r.types + " layer " + std::to_string(r.layer) + ": " +
             std::to_string(r.nmse) + " " + r.note + "\n";
  return out;
}

std::set<std::string> checks(const SelfCheckReport& report) {
  std::set<std::string> out;
  for (const SelfCheckRow& r : report.rows) out.insert(r.check);
  return out;
}

}  // namespace

TEST_CASE("every architecture passes its own check, each op kind and weight type compared in both arithmetics") {
  Runtime runtime = runtime_with(2);
  for (const std::string name : {"llama", "gemma3", "qwen3_moe", "deepseek_v2", "deepseek_v3", "deepseek_v3_bf16",
                                 "deepseek_v3_fp8", "deepseek_v32", "deepseek_v3_mtp", "tiny"}) {
    Model model = Model::open(runtime, name == "tiny" ? DSV31_TINY_MODEL : random_model(name));
    const SelfCheckReport report = model.self_check();
    INFO(name << "\n" << faults(report));
    CHECK(report.ok());
    std::set<std::string> want, got;
    const auto op_rows = model.execution_plan();
    for (const PlanRow& r : op_rows) want.insert(r.op + " fast"), want.insert(r.op + " exact");
    for (const SelfCheckRow& r : report.rows)
      if (r.check == "kernel") got.insert(r.what + " " + r.arithmetic);
    CHECK(got == want);
    const auto done = checks(report);
    for (const char* check : {"weights", "kernel", "chunks", "threads", "cache", "batch"}) CHECK(done.count(check) == 1);
    const bool latent = name.rfind("deepseek", 0) == 0;
    if (latent) CHECK(done.count(name == "deepseek_v32" ? "sparse" : "expanded") == 1);
    // Four experts of every layer that has them.
    std::set<int> layers;
    for (const PlanRow& r : op_rows)
      if (r.op == "experts") layers.insert(r.layer);
    for (const SelfCheckRow& r : report.rows)
      if (r.what == "experts" && r.arithmetic == "fast") {
        CHECK(r.note.find(" of ") != std::string::npos);
        CHECK(std::stoi(r.note) >= 4);
        layers.erase(r.layer);
      }
    CHECK(layers.empty());
  }
}

TEST_CASE("one flipped byte of a packed tensor fails the check, naming the tensor") {
  for (const std::string name : {"llama", "deepseek_v3_fp8", "tiny"}) {
    Model model = Model::open(runtime_with(2), name == "tiny" ? DSV31_TINY_MODEL : random_model(name));
    const auto& matrices = model.impl()->weights.matrices();
    for (std::size_t m = 0; m < matrices.size(); m += 1 + matrices.size() / 3) {
      const PackedMatrix& w = matrices[m];
      auto* byte = const_cast<std::byte*>(w.data) + w.stride * static_cast<std::size_t>(w.desc.count) / 2 + m % 7;
      *byte ^= std::byte{1};
      const SelfCheckReport report = model.self_check({.tokens = 8, .weights = 0});
      const auto named = std::find_if(report.rows.begin(), report.rows.end(),
                                      [&](const SelfCheckRow& r) { return r.what == w.desc.name && !r.ok; });
      INFO(name << " " << w.desc.name);
      CHECK_FALSE(report.ok());
      CHECK(named != report.rows.end());
      *byte ^= std::byte{1};
    }
    CHECK(model.self_check({.tokens = 8, .weights = 0}).ok());
  }
}

TEST_CASE("with fewer weights to compare some ops are left out, and the report says which") {
  Model model = Model::open(runtime_with(2), random_model("llama"));
  const SelfCheckReport all = model.self_check(), few = model.self_check({.tokens = 8, .weights = 0});
  CHECK(few.ok());
  CHECK(few.rows.size() < all.rows.size());
  const auto says = [](const SelfCheckReport& r) {
    return std::any_of(r.left_out.begin(), r.left_out.end(),
                       [](const std::string& s) { return s.find("gated_ffn") != std::string::npos; });
  };
  CHECK(says(few));
  CHECK_FALSE(says(all));
}

TEST_CASE("a self check can be cancelled and refuses options out of range") {
  Model model = Model::open(runtime_with(1), random_model("llama"));
  CancelToken cancel;
  cancel.cancel();
  expect_error(Code::cancelled, {"self_check"}, [&] { model.self_check({.cancel = &cancel}); });
  expect_error(Code::argument, {"self_check.tokens"}, [&] { model.self_check({.tokens = 7}); });
  expect_error(Code::argument, {"self_check.weights"}, [&] { model.self_check({.weights = -1}); });
}
