// A number that is not finite ends the step with an error that says where it came from; the session goes on.
#include <limits>

#include "tests/api/fixtures.h"
#include "tests/api/made_model.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

EditTensor with(const std::string& tensor, std::size_t index, float value) {
  return [=](const std::string& name, std::vector<float>& data) {
    if (name == tensor) data.at(index) = value;
  };
}

std::string message(const std::function<void()>& f, Code code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(to_string(e.code()) == to_string(code));
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a weight that is not finite is named by op and layer, its valid twin runs") {
  struct Case {
    const char *tensor, *where;
    float value;
  };
  const auto prompt = made_tokens(20, 1, kMadeVocab);
  for (const char* backend : {"", "reference"}) {
    Runtime runtime = runtime_with(2, "", backend);
    for (const Case& c : {Case{"blk.2.ffn_norm.weight", "op 'experts' of layer 2", kNan},
                          Case{"blk.2.attn_output.weight", "op 'linear' of layer 2", kInfinity},
                          Case{"blk.1.attn_q.weight", "op 'linear' of layer 1", kNan},
                          Case{"blk.0.attn_v.weight", "op 'linear' of layer 0", kNan},
                          Case{"output_norm.weight", "op 'head' outside the layers", kNan}})
      for (const std::int64_t chunk : {1, 7, 512}) {
        Session session(made_model(runtime, with(c.tensor, 5, c.value)), {.chunk = chunk});
        const std::string got = message([&] { session.append(prompt); }, Code::backend);
        INFO(c.tensor << " on '" << backend << "', chunk " << chunk << ": " << got);
        CHECK(got.find("not finite") != std::string::npos);
        // An expert gets no tokens from a gate that compares with NaN: the gate is where it shows first.
        const bool gate =
            std::string(c.where).find("experts") != std::string::npos && got.find("op 'gate' of layer 2") != std::string::npos;
        CHECK((gate || got.find(c.where) != std::string::npos));
        // What only the logits show ends the step that makes them; the steps before were complete.
        CHECK(session.size() == (std::string(c.tensor) == "output_norm.weight" ? 19 / chunk * chunk : 0));
      }
    Session twin(made_model(runtime, with("blk.2.ffn_norm.weight", 5, 1.0f)));
    twin.append(prompt);
    CHECK(std::isfinite(twin.logits()[0]));
  }
}

TEST_CASE("a session goes on after a step that was not finite, with the bits of one that never saw it") {
  for (const char* backend : {"", "reference"})
    for (const bool exact : {false, true}) {
      const Token poison = 7;
      Model model = made_model(runtime_with(2, "", backend), with("token_embd.weight", 7 * kMadeHidden + 3, kNan));
      auto ids = made_tokens(70, 3, kMadeVocab);
      for (Token& t : ids)
        if (t == poison) t = 8;
      const std::span<const Token> all(ids);
      Session fresh(model, {.exact = exact}), session(model, {.exact = exact});
      fresh.append(ids);
      session.append(all.first(30));
      std::vector<Token> bad(all.begin() + 30, all.begin() + 40);
      bad[4] = poison;
      const std::string got = message([&] { session.append(bad); }, Code::backend);
      CHECK(got.find("op 'embed' outside the layers") != std::string::npos);
      CHECK(session.size() == 30);
      session.append(all.subspan(30));
      INFO("on '" << backend << "'");
      CHECK(same_bits(session.logits(), fresh.logits()));
      // and while it generates
      std::size_t asked = 0;
      GenerateOptions o{.max_tokens = 5, .ignore_end_of_generation = true};
      o.processor = [&](std::span<float> logits, std::span<const Token>) {
        if (++asked == 3) logits[static_cast<std::size_t>(poison)] = 1e30f;
      };
      CHECK(message([&] { session.generate(o); }, Code::backend).find("embed") != std::string::npos);
      CHECK(session.tokens().back() == poison);  // sampled tokens are the truth: it is the caller's to rewind
      session.rewind(70);
      CHECK(same_bits(session.logits(), fresh.logits()));
    }
}
