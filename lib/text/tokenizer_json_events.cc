#include "lib/text/tokenizer_json_events.h"

#include <fmt/format.h>

#include "dsv31/error.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::string_view kWhere = "tokenizer.json";

// Builds a Json from events.
class TreeBuilder {
 public:
  bool busy() const noexcept { return !open_.empty(); }
  void key(std::string& name) { open_.back().name = std::move(name); }
  void start(io::Json empty) { open_.push_back({std::move(empty), {}}); }
  // Adds a finished value; true, with the value in `done`, where it is the outermost.
  bool value(io::Json v, io::Json& done) {
    if (open_.empty()) {
      done = std::move(v);
      return true;
    }
    Level& top = open_.back();
    if (top.json.is_array()) {
      top.json.as_array().push_back(std::move(v));
    } else {
      if (top.json.has(top.name)) throw Error(Code::format, kWhere, "got a key twice in one object, expected it once");
      top.json.as_object().emplace_back(std::move(top.name), std::move(v));
    }
    return false;
  }
  bool end(io::Json& done) {
    io::Json v = std::move(open_.back().json);
    open_.pop_back();
    return value(std::move(v), done);
  }

 private:
  struct Level {
    io::Json json;
    std::string name;
  };
  std::vector<Level> open_;
};

class Handler final : public io::JsonEvents {
 public:
  explicit Handler(RawTokenizerJson& to) : to_(to) {
    to_.root = io::Json(io::Json::Object{});
    to_.model = io::Json(io::Json::Object{});
  }

  void null() override { scalar(io::Json()); }
  void boolean(bool v) override { scalar(io::Json(v)); }
  void integer(std::int64_t v) override {
    if (state_ != State::vocab) return scalar(io::Json(v));
    to_.vocab.back().id = v;
  }
  void unsigned_integer(std::uint64_t v) override { scalar(io::Json(v)); }
  void number(double v) override { scalar(io::Json(v)); }
  void string(std::string& v) override {
    if (state_ == State::merges) return merge_line(v);
    if (state_ == State::merge_pair) return merge_part(v);
    scalar(io::Json(std::move(v)));
  }
  void key(std::string& name) override {
    switch (state_) {
      case State::root:
        if (to_.root.has(name) || (name == "model" && has_model_)) fail("got a member twice, expected it once");
        name_ = std::move(name);
        break;
      case State::model:
        if (to_.model.has(name) || (name == "vocab" && to_.has_vocab) || (name == "merges" && has_merges_))
          fail("model: got a member twice, expected it once");
        name_ = std::move(name);
        break;
      case State::vocab:
        if (to_.vocab.size() >= kMaxTokens)
          throw Error(Code::limit, kWhere,
                      fmt::format("model.vocab: got more than {} tokens, expected at most that", kMaxTokens));
        to_.vocab.push_back({to_.texts.size(), name.size(), -1});
        to_.texts += name;
        break;
      default:
        tree_.key(name);
    }
  }
  void start_object() override {
    switch (state_) {
      case State::start:
        state_ = State::root;
        return;
      case State::root:
        if (name_ == "model") {
          state_ = State::model;
          has_model_ = true;
          return;
        }
        break;
      case State::model:
        if (name_ == "vocab") {
          state_ = State::vocab;
          to_.has_vocab = true;
          return;
        }
        break;
      case State::vocab:
        fail("model.vocab: got an object for an id, expected an integer");
      case State::merges:
      case State::merge_pair:
        bad_merge("an object");
      case State::tree:
        break;
    }
    open(io::Json(io::Json::Object{}));
  }
  void end_object() override {
    switch (state_) {
      case State::root:
        state_ = State::start;
        return;
      case State::model:
        state_ = State::root;
        return;
      case State::vocab:
        state_ = State::model;
        return;
      default:
        close();
    }
  }
  void start_array() override {
    switch (state_) {
      case State::start:
        fail("got an array, expected an object");
      case State::model:
        if (name_ == "merges") {
          state_ = State::merges;
          has_merges_ = true;
          return;
        }
        break;
      case State::merges:
        state_ = State::merge_pair;
        parts_ = 0;
        return;
      case State::merge_pair:
        bad_merge("an array in an array");
      case State::vocab:
        fail("model.vocab: got an array for an id, expected an integer");
      default:
        break;
    }
    open(io::Json(io::Json::Array{}));
  }
  void end_array() override {
    if (state_ == State::merges) {
      state_ = State::model;
    } else if (state_ == State::merge_pair) {
      if (parts_ != 2) bad_merge(fmt::format("{} texts", parts_));
      state_ = State::merges;
    } else {
      close();
    }
  }

 private:
  enum class State { start, root, model, vocab, merges, merge_pair, tree };

  [[noreturn]] static void fail(std::string_view what) { throw Error(Code::format, kWhere, what); }
  [[noreturn]] void bad_merge(std::string_view got) const {
    const std::size_t line = to_.merges.empty() ? 0 : to_.merges.size() - (state_ == State::merge_pair ? 1 : 0);
    throw Error(Code::format, kWhere, fmt::format("model.merges: merge {}: got {}, expected two tokens", line, got));
  }

  void open(io::Json empty) {
    if (state_ != State::tree) outer_ = state_;
    state_ = State::tree;
    tree_.start(std::move(empty));
  }
  void close() {
    io::Json done;
    if (tree_.end(done)) {
      state_ = outer_;
      scalar(std::move(done));
    }
  }
  void scalar(io::Json v) {
    io::Json done;
    switch (state_) {
      case State::start:
        fail("got a single value, expected an object");
      case State::root:
        to_.root.as_object().emplace_back(std::move(name_), std::move(v));
        return;
      case State::model:
        to_.model.as_object().emplace_back(std::move(name_), std::move(v));
        return;
      case State::vocab:
        fail("model.vocab: got an id that is no integer, expected an integer");
      case State::merges:
      case State::merge_pair:
        bad_merge("a value that is no text");
      case State::tree:
        tree_.value(std::move(v), done);
    }
  }

  void new_merge() {
    if (to_.merges.size() >= kMaxMerges)
      throw Error(Code::limit, kWhere, fmt::format("model.merges: got more than {}, expected at most that", kMaxMerges));
    to_.merges.push_back({to_.texts.size(), 0, 0});
  }
  void merge_line(const std::string& v) {
    const std::size_t at = v.find(' ');
    if (at == std::string::npos || at == 0 || at + 1 == v.size() || v.find(' ', at + 1) != std::string::npos)
      bad_merge("a text that is not two tokens with one space between");
    new_merge();
    to_.texts.append(v, 0, at).append(v, at + 1);
    to_.merges.back().left = at;
    to_.merges.back().right = v.size() - at - 1;
  }
  void merge_part(const std::string& v) {
    if (parts_ == 0) new_merge();
    if (parts_ >= 2 || v.empty()) bad_merge(parts_ >= 2 ? "more than two texts" : "an empty text");
    to_.texts += v;
    (parts_ == 0 ? to_.merges.back().left : to_.merges.back().right) = v.size();
    ++parts_;
  }

  RawTokenizerJson& to_;
  State state_ = State::start, outer_ = State::start;
  std::string name_;
  TreeBuilder tree_;
  bool has_model_ = false, has_merges_ = false;
  int parts_ = 0;
};

}  // namespace

RawTokenizerJson read_tokenizer_json(std::string_view json) {
  RawTokenizerJson raw;
  io::JsonLimits limits;
  limits.max_bytes = std::size_t{128} << 20;
  limits.max_values = 32'000'000;
  raw.texts.reserve(json.size() / 2);
  Handler handler(raw);
  io::parse_json_events(json, kWhere, limits, handler);
  return raw;
}

}  // namespace dsv31::inline v1::text
