// A character of a game that talks while the game runs at 60 frames a second: the model computes on the game's own thread, in
// slices that fit what a frame has left, and stops at once when the player walks away.
// usage: game_npc MODEL
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "dsv31/dsv31.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFrame = std::chrono::microseconds(16'667);
constexpr auto kBudget = std::chrono::milliseconds(6);  // of a frame, for talking
constexpr std::size_t kPromptSlice = 8;                 // tokens of the prompt at a time

// The game's job system. This one has a single thread, the caller's; the library then starts none.
class GameJobs final : public dsv31::Executor {
 public:
  int concurrency() const override { return 1; }
  void parallel_for(int count, void (*fn)(void* arg, int index), void* arg) override {
    for (int i = 0; i < count; ++i) fn(arg, i);
  }
};

class Npc {
 public:
  explicit Npc(const dsv31::Model& model) : model_(model), session_(model, {.context = 512}) {}

  // The player says something: nothing is computed yet. The part of the prompt that the session knows already is kept.
  void hear(const std::string& line) {
    prompt_ = model_.tokenizer().encode(model_.chat_template().render({{.role = "user", .content = line}}, {.thinking = false}));
    std::size_t known = 0;
    const auto timeline = session_.tokens();
    while (known + 1 < prompt_.size() && known < timeline.size() && timeline[known] == prompt_[known]) ++known;
    session_.rewind(static_cast<std::int64_t>(known));
    said_.clear();
    cancel_.reset();
    talking_ = true;
  }

  // A slice of work, until the deadline or the end of the answer. Something is always done, so that slow machines get on too.
  void update(Clock::time_point deadline) {
    try {
      while (talking_ && static_cast<std::size_t>(session_.size()) < prompt_.size()) {
        const auto rest = std::span(prompt_).subspan(static_cast<std::size_t>(session_.size()));
        session_.append(rest.first(std::min(rest.size(), kPromptSlice)), {.cancel = &cancel_});
        if (Clock::now() >= deadline) return;
      }
      if (!talking_) return;
      dsv31::GenerateOptions options{.sampler = dsv31::SamplerOptions::greedy(), .cancel = &cancel_};
      const dsv31::GenerateResult slice = session_.generate(options, [&](const dsv31::TokenEvent& event) {
        said_ += event.text;
        return Clock::now() < deadline;
      });
      talking_ = slice.finish == dsv31::Finish::stopped;  // out of time: go on in the next frame
    } catch (const dsv31::Error& e) {
      if (e.code() != dsv31::Code::cancelled) throw;
      talking_ = false;
    }
  }

  void interrupt() { cancel_.cancel(); }  // from any thread
  bool talking() const { return talking_; }
  const std::string& said() const { return said_; }

 private:
  dsv31::Model model_;
  dsv31::Session session_;
  std::vector<dsv31::Token> prompt_;
  std::string said_;
  dsv31::CancelToken cancel_;
  bool talking_ = false;
};

// Frames until the character is silent; the player walks away after `patience` of them.
int play(Npc& npc, int patience) {
  int frames = 0;
  for (auto start = Clock::now(); npc.talking(); start += kFrame, ++frames) {
    if (frames == patience) npc.interrupt();
    npc.update(start + kBudget);  // the rest of the frame: input, physics, drawing
    std::this_thread::sleep_until(start + kFrame);
  }
  return frames;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: game_npc MODEL\n");
    return 2;
  }
  try {
    GameJobs jobs;
    dsv31::RuntimeOptions options;
    options.executor = &jobs;
    const dsv31::Model model = dsv31::Model::open(dsv31::Runtime(options), argv[1]);
    Npc npc(model);
    npc.hear("What is the capital of France?");
    const int frames = play(npc, 100'000);
    std::printf("answer: %s (%d frames)\n", npc.said().c_str(), frames);
    npc.hear("Count from 1 to 30.");
    std::printf("interrupted after %d frames: %s\n", play(npc, 2), npc.said().c_str());
    npc.hear("What is the capital of Japan?");
    play(npc, 100'000);
    std::printf("answer: %s\n", npc.said().c_str());
    return 0;
  } catch (const dsv31::Error& e) {
    std::fprintf(stderr, "game_npc: %s\n", e.what());
    return 1;
  }
}
