// Attention windows of sessions and conversations: what they change, and that nothing else does.
#include <memory>
#include <random>

#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

constexpr AttentionWindow kNarrow{.window = 40, .sinks = 5};

struct Subject {
  std::string path;
  ComputeOptions compute{};
};

std::vector<Subject> subjects() {
  return {{random_model("llama")},       {random_model("gemma3")},       {random_model("qwen3_moe")},
          {random_model("deepseek_v3")}, {random_model("deepseek_v32")}, {random_model("deepseek_v2"), {.exact = true}}};
}

std::vector<float> windowed(const Model& model, std::span<const Token> ids, const AttentionWindow& window,
                            const ComputeOptions& compute = {}) {
  Session session(model, compute);
  session.set_attention_window(window);
  return all_logits(session, ids);
}

// The same tokens, each under the window that it has, computed from nothing.
Session replayed(const Session& s) {
  Session fresh(s.model());
  for (std::int64_t p = 0; p < s.size(); ++p) {
    fresh.set_attention_window(s.attention_window(p));
    fresh.append(s.tokens().subspan(static_cast<std::size_t>(p), 1));
  }
  return fresh;
}

Message user(std::string text) { return {.role = "user", .content = std::move(text)}; }

}  // namespace

TEST_CASE("a window that hides nothing gives the bits of none, one that hides something does not") {
  for (const Subject& s : subjects()) {
    const Model model = Model::open(runtime_with(2), s.path);
    const auto ids = made_tokens(300, 1, 320);
    const auto want = all_logits(model, ids, s.compute);
    INFO(s.path);
    for (const AttentionWindow& w :
         {AttentionWindow{.window = 300}, {.window = 290, .sinks = 10}, {.window = INT32_MAX, .sinks = 4}})
      CHECK(same_bits(windowed(model, ids, w, s.compute), want));
    const auto narrow = windowed(model, ids, kNarrow, s.compute);
    const std::size_t vocab = want.size() / 300, same = 45 * vocab;  // the first position that does not see all is 45
    CHECK(same_bits(std::span(narrow).first(same), std::span(want).first(same)));
    CHECK(!same_bits(narrow, want));
  }
}

TEST_CASE("threads, chunks and instruction sets give the same bits under a window, and the reference agrees") {
  for (const Subject& s : subjects())
    for (const AttentionWindow& w : {kNarrow, AttentionWindow{.window = 100, .sinks = 70}}) {
      INFO(s.path << " window " << w.window);
      const auto ids = made_tokens(230, 2, 320);
      const auto want = windowed(Model::open(runtime_with(1), s.path), ids, w, s.compute);
      const Model two = Model::open(runtime_with(2), s.path), three = Model::open(runtime_with(3), s.path);
      CHECK(same_bits(windowed(two, ids, w, s.compute), want));
      CHECK(same_bits(windowed(three, ids, w, s.compute), want));
      for (const std::int64_t chunk : {1, 7, 64}) {
        ComputeOptions c = s.compute;
        c.chunk = chunk;
        CHECK(same_bits(windowed(two, ids, w, c), want));
      }
      for (const std::string& isa : available_isas())
        CHECK(same_bits(windowed(Model::open(runtime_with(2, isa), s.path), ids, w, s.compute), want));
      const auto exact = windowed(two, ids, w, {.exact = true});
      CHECK(nmse(windowed(Model::open(runtime_with(2, {}, "reference"), s.path), ids, w, {.exact = true}), exact) < 1e-6);
      CHECK(nmse(windowed(two, ids, w, {.relaxed = true}), want) < 1e-3);
    }
}

TEST_CASE("sessions with windows of their own advance together with the bits of each alone") {
  for (const Subject& s : subjects()) {
    const Model model = Model::open(runtime_with(2), s.path);
    const AttentionWindow windows[] = {{}, kNarrow, {.window = 16}, {.window = 300, .sinks = 4}, {.window = 20, .sinks = 90}};
    std::vector<Session> together;
    std::vector<std::vector<Token>> texts;
    for (unsigned i = 0; i < 5; ++i) {
      together.emplace_back(model, s.compute);
      together.back().set_attention_window(windows[i]);
      texts.push_back(made_tokens(150, 40 + i, 320));
    }
    for (std::size_t at = 0; at < 150; at += 30) {
      std::vector<Advance> items;
      for (std::size_t i = 0; i < 5; ++i)
        items.push_back({&together[i], std::span<const Token>(texts[i]).subspan(at, at == 120 ? 1 : 30)});
      advance_all(items);
    }
    for (std::size_t i = 0; i < 5; ++i) {
      Session alone(model, s.compute);
      alone.set_attention_window(windows[i]);
      alone.append(std::span<const Token>(texts[i]).first(121));
      INFO(s.path << " session " << i);
      CHECK(same_bits(together[i].logits(), alone.logits()));
    }
  }
}

TEST_CASE("a token keeps its window through rewinds, forks and steps that other tokens share") {
  for (const char* name : {"llama", "gemma3", "deepseek_v3", "deepseek_v32"}) {
    const Model model = Model::open(runtime_with(2), random_model(name));
    const AttentionWindow windows[] = {{}, kNarrow, {.window = 16, .sinks = 1}, {.window = 64}};
    std::mt19937 rng(5);
    std::vector<std::unique_ptr<Session>> all;
    all.push_back(std::make_unique<Session>(model));
    for (int step = 0; step < 150; ++step) {
      Session& s = *all[rng() % all.size()];
      const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<unsigned>(n)); };
      switch (below(6)) {
        case 0:
          s.set_attention_window(windows[below(4)]);
          break;
        case 1:
          s.rewind(s.size() - below(std::min<std::int64_t>(s.size(), 90) + 1));
          break;
        case 2:
          if (all.size() < 4) all.push_back(std::make_unique<Session>(s.fork()));
          break;
        case 3:
          if (s.size() > 0 && s.size() < 380) s.generate({.max_tokens = 1 + below(9), .ignore_end_of_generation = true});
          break;
        default:
          if (s.size() < 300) s.append(made_tokens(static_cast<std::size_t>(1 + below(below(3) == 0 ? 90 : 5)), rng(), 320));
      }
      if (s.size() == 0 || step % 5 != 0) continue;
      INFO(name << " step " << step << ", " << s.size() << " tokens");
      Session fresh = replayed(s);
      REQUIRE(same_bits(s.logits(), fresh.logits()));
    }
  }
}

TEST_CASE("what a window hides has no say: under one of a single token, others change nothing but through the sinks") {
  const auto changed = [](std::vector<Token> ids, std::size_t at) {
    ids[at] = (ids[at] + 1) % 320;
    return ids;
  };
  const auto ids = made_tokens(100, 6, 320);
  for (const Subject& s : subjects()) {
    const Model model = Model::open(runtime_with(2), s.path);
    const AttentionWindow alone{.window = 1}, sinks{.window = 1, .sinks = 5};
    const auto behind = [&](std::span<const Token> list, const AttentionWindow& w) {  // logits of positions 60 and on
      const auto all = windowed(model, list, w, s.compute);
      return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(all.size() * 60 / 100), all.end());
    };
    INFO(s.path);
    CHECK(same_bits(behind(changed(ids, 59), alone), behind(ids, alone)));
    CHECK(same_bits(behind(changed(ids, 0), alone), behind(ids, alone)));
    CHECK(same_bits(behind(changed(ids, 59), sinks), behind(ids, sinks)));
    CHECK(same_bits(behind(changed(ids, 5), sinks), behind(ids, sinks)));
    // All the layers of gemma3 but one have a window of their own, which hides the first tokens by then.
    CHECK(!same_bits(behind(changed(ids, 4), sinks), behind(ids, sinks)));
  }
  const Model model = Model::open(runtime_with(2), random_model("deepseek_v3_mtp"), {.mtp = true});
  const auto drafts = [&](std::span<const Token> list) {  // logits of the draft layer's entries from 60 on
    Session session(model);
    session.set_attention_window({.window = 1});
    std::vector<float> out;
    session.append(list, {.draft_sink = [&](std::int64_t first, std::span<const float> rows) {
                     if (first >= 60) out.insert(out.end(), rows.begin(), rows.end());
                   }});
    return out;
  };
  CHECK(drafts(ids).size() >= 39 * 320);
  CHECK(same_bits(drafts(changed(ids, 59)), drafts(ids)));

  // The layer reads states later than the trunk made them, each under the window of its token.
  const auto late = [&](bool at_once, std::size_t step) {
    Session session(model);
    std::vector<float> out;
    const AppendOptions sink{
        .draft_sink = [&](std::int64_t, std::span<const float> rows) { out.insert(out.end(), rows.begin(), rows.end()); }};
    session.set_attention_window({.window = 3});
    session.append(std::span(ids).first(20), at_once ? sink : AppendOptions{});
    session.set_attention_window({});
    for (std::size_t i = 20; i < 50; i += step) session.append(std::span(ids).subspan(i, step), sink);
    return out;
  };
  CHECK(late(true, 1).size() == 49 * 320);
  CHECK(same_bits(late(true, 30), late(true, 1)));
  CHECK(same_bits(late(false, 30), late(true, 1)));
}

TEST_CASE("drafts give the tokens of none under a window that changed after the prompt") {
  const Model model = Model::open(runtime_with(2), random_model("deepseek_v3_mtp"), {.mtp = true});
  std::vector<Token> want;
  for (const Draft draft : {Draft::none, Draft::ngram, Draft::mtp}) {
    Session s(model);
    s.append(made_tokens(70, 3, 320));
    s.set_attention_window({.window = 20, .sinks = 2});
    s.append(made_tokens(9, 4, 320));
    s.rewind(78);
    s.set_attention_window({.window = 30, .sinks = 2});
    SamplerOptions few;
    for (Token t = 0; t < 320; ++t)
      if (t % 80 != 7) few.logit_bias.emplace_back(t, -INFINITY);
    const GenerateResult r =
        s.generate({.max_tokens = 60, .sampler = few, .ignore_end_of_generation = true, .draft = draft, .draft_cost = 0},
                   [&](const TokenEvent&) {
                     s.set_attention_window({});  // of the next call
                     return true;
                   });
    if (want.empty()) want = r.tokens;
    CHECK(r.tokens == want);
    CHECK(s.attention_window(77) == AttentionWindow{.window = 20, .sinks = 2});
    CHECK(s.attention_window(137) == AttentionWindow{.window = 30, .sinks = 2});
    Session fresh = replayed(s);
    CHECK(same_bits(s.logits(), fresh.logits()));
  }
}

TEST_CASE("a session knows which of its tokens saw what they would see now") {
  const Model model = Model::open(runtime_with(2), random_model("llama"));
  Session s(model);
  CHECK(s.attention_window() == AttentionWindow{});
  CHECK(s.same_view() == 0);
  s.append(made_tokens(60, 1, 320));
  CHECK(s.same_view() == 60);
  s.set_attention_window(kNarrow);
  CHECK(s.same_view() == 45);  // up to there the window hides nothing
  s.append(made_tokens(20, 2, 320));
  CHECK(s.same_view() == 45);
  s.set_attention_window({});
  CHECK(s.same_view() == 60);
  s.set_attention_window({.window = 70, .sinks = 2});
  CHECK(s.same_view() == 60);
  const std::vector<Token> ids(s.tokens().begin(), s.tokens().end());
  CHECK(s.sync(ids) == 80);  // tokens stay, whatever their windows
  CHECK(s.attention_window(59) == AttentionWindow{});
  CHECK(s.attention_window(60) == kNarrow);
  s.set_attention_window(kNarrow);
  s.rewind(s.same_view());
  CHECK(s.sync(ids) == 45);
  Session fresh(model);
  fresh.set_attention_window(kNarrow);
  fresh.append(ids);
  CHECK(same_bits(s.logits(), fresh.logits()));
  CHECK(s.same_view() == 80);
  CHECK(s.fork().attention_window() == kNarrow);
}

TEST_CASE("windows out of range are arguments, and the one in force stays") {
  const Model model = Model::open(runtime_with(1), random_model("llama"));
  Session s(model, {.context = 100});
  s.set_attention_window(kNarrow);
  expect_error(Code::argument, {"attention_window.window", "got -1", "0 to 2147483647"},
               [&] { s.set_attention_window({.window = -1}); });
  expect_error(Code::argument, {"attention_window.window", "2147483648"},
               [&] { s.set_attention_window({.window = std::int64_t{1} << 31}); });
  expect_error(Code::argument, {"attention_window.sinks", "got 4 without a window"},
               [&] { s.set_attention_window({.sinks = 4}); });
  expect_error(Code::argument, {"attention_window.sinks", "got -1", "0 to 99"},
               [&] { s.set_attention_window({.window = 8, .sinks = -1}); });
  expect_error(Code::argument, {"attention_window.sinks", "got 100", "0 to 99"},
               [&] { s.set_attention_window({.window = 8, .sinks = 100}); });
  CHECK(s.attention_window() == kNarrow);
  expect_error(Code::argument, {"session.attention_window", "position 0 of a timeline of 0"}, [&] { s.attention_window(0); });
  const Model tiny = Model::open(runtime_with(1), DSV31_TINY_MODEL);
  expect_error(Code::argument, {"attention_window.sinks"}, [&] { Conversation(tiny, {.thinking_window = {.sinks = 1}}); });
  expect_error(Code::argument, {"attention_window.window"}, [&] { Conversation(tiny, {.fast_window = {.window = -5}}); });
}

TEST_CASE("modes with windows of their own: a change of mode computes the new tokens alone, and the report says what was mixed") {
  const Model model = Model::open(runtime_with(2), DSV31_TINY_MODEL);
  const AttentionWindow narrow{.window = 24, .sinks = 2};
  GenerateOptions g;
  g.max_tokens = 60;
  g.sampler = SamplerOptions::greedy();
  const auto run = [&](const ConversationOptions& options) {
    std::vector<CacheReport> reports;
    Conversation talk(model, options);
    for (int turn = 0; turn < 6; ++turn) {
      talk.add(user("What is " + std::to_string(12 + turn) + " + 3" + std::to_string(turn) + "?"));
      const Mode mode = turn % 3 == 1 ? Mode::thinking : Mode::fast;
      reports.push_back(talk.answer({.mode = mode, .generate = g}).cache);
      const Session& s = talk.session();
      // The prompt's new tokens and the answer have the mode's window, and the cache holds what those windows give.
      const AttentionWindow& expected = mode == Mode::thinking ? options.thinking_window : options.fast_window;
      CHECK(s.attention_window(s.size() - 1) == expected);
      CHECK(s.attention_window(reports.back().reused_tokens + reports.back().computed_tokens - 1) == expected);
      Session fresh = replayed(s), now = s.fork();
      CHECK(same_bits(now.logits(), fresh.logits()));
    }
    return reports;
  };
  const auto off = run({}), mixed = run({.thinking_window = narrow}),
             same = run({.fast_window = narrow, .thinking_window = narrow}),
             again = run({.thinking_window = narrow, .recompute_other_window = true});
  std::int64_t other = 0, computed = 0, recomputed = 0;
  for (std::size_t i = 0; i < off.size(); ++i) {
    CHECK(off[i].other_window_tokens == 0);
    CHECK(same[i].other_window_tokens == 0);
    CHECK(again[i].other_window_tokens == 0);
    other += mixed[i].other_window_tokens;
    recomputed += again[i].computed_tokens;
    computed += mixed[i].computed_tokens;
    if (i == 0) continue;
    // New tokens are one question and what the answer before left to compute: never the prompt.
    CHECK(mixed[i].reused_tokens > mixed[i - 1].reused_tokens);
    CHECK(mixed[i].computed_tokens < 40);
  }
  CHECK(other > 0);
  CHECK(recomputed > computed);
}

TEST_CASE("a conversation under windows wider than it is has the tokens of one without") {
  const Model model = Model::open(runtime_with(2), DSV31_TINY_MODEL);
  const auto tokens = [&](const ConversationOptions& options) {
    Conversation talk(model, options);
    for (const Mode mode : {Mode::fast, Mode::thinking, Mode::fast}) {
      talk.add(user("What is 12 + 30?"));
      talk.answer({.mode = mode, .generate = {.max_tokens = 60, .sampler = SamplerOptions::greedy()}});
    }
    return std::vector<Token>(talk.session().tokens().begin(), talk.session().tokens().end());
  };
  CHECK(tokens({.fast_window = {.window = 2000}, .thinking_window = {.window = 900, .sinks = 4}}) == tokens({}));
}
