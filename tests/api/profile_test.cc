// The limits that speeds are held against. Nothing here depends on how fast the machine is.
#include "dsv31/profile.h"

#include "dsv31/session.h"
#include "lib/api/model_impl.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;

TEST_CASE("a probe measures every limit of the runtime's own instruction set") {
  RuntimeOptions options;
  options.threads = 2;
  const Runtime runtime(options);
  const MachineProfile m = probe_machine(runtime, {.buffer_bytes = 1 << 20, .seconds_a_loop = 0.001});
  CHECK(m.isa == runtime.isa());
  CHECK(m.threads == 2);
  CHECK(m.cycles_per_second > 0);
  CHECK(m.read_bandwidth_one > 0);
  CHECK(m.read_bandwidth > 0);
  CHECK(m.barrier_seconds > 0);
  CHECK(m.forms.empty() == (m.isa == "generic"));
  for (const FormRate& f : m.forms) {
    INFO(f.form);
    CHECK(f.macs_per_second > 0);
    CHECK_FALSE(f.types.empty());
  }
  CHECK(runtime.memory().scratch == 0);  // the buffer is given back
  CHECK_THROWS_AS(probe_machine(runtime, {.buffer_bytes = 1}), Error);
  CHECK_THROWS_AS(probe_machine(runtime, {.seconds_a_loop = 0}), Error);
}

TEST_CASE("the least time of a prompt adds up its products and its attention") {
  MachineProfile m;
  m.forms = {{"u4*s8", {"Q4_0"}, 1000, 1}, {"f32*f32", {"F32"}, 100, 1}};
  TokenWork w;
  w.body = {{"Q4_0", 500}, {"F32", 10}};
  w.head = {{"Q4_0", 2000}};
  w.attention = {{0, 5, 3}, {2, 5, 3}};
  w.weight_bytes = 100;
  // three tokens after one: 3 * (0.5 + 0.1) + 2, and keys 2 + 3 + 4 and 2 + 2 + 2, 15 * 5 / 100
  CHECK(std::abs(least_prefill_seconds(m, w, 1, 3) - (1.8 + 2 + 0.75)) < 1e-12);
  CHECK(decode_bytes(w, 9) == 100 + 3 * 10 + 3 * 2);
  w.body[0].type = "Q6_K";
  CHECK(least_prefill_seconds(m, w, 1, 3) == 0);
}

TEST_CASE("the work of a token counts each matrix once and the barriers that a step takes") {
  RuntimeOptions options;
  options.threads = 2;
  const Model model = Model::open(Runtime(options), DSV31_TINY_MODEL);
  const TokenWork w = token_work(model, {}, 300);
  std::uint64_t macs = 0;
  for (const auto* list : {&w.body, &w.head})
    for (const TypeWork& t : *list) macs += t.macs;
  CHECK(macs > 0);
  CHECK(macs < model.info().parameters);
  CHECK(w.attention.size() == static_cast<std::size_t>(model.info().num_hidden_layers));
  CHECK(w.weight_bytes == model.info().active_bytes);

  Session session(model);
  session.append(std::vector<Token>(300, 5));
  session.append(std::vector<Token>(1, 7));
  session.logits();
  CHECK(model.impl()->engine->last_phases() == w.barriers);
}
