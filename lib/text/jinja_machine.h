// Runs a Program: a stack machine whose every nesting is a vector, so that it needs the same small C++ stack for any template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsv31/chat.h"
#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_program.h"

namespace dsv31::inline v1::text::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

class Machine {
 public:
  Machine(const Program& program, const ChatLimits& limits, std::int64_t now);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The text that the template makes of the variables. Throws Error with line:column. Call once.
  Text run(const Variables& variables);

 private:
  struct Scope final : Cell {
    std::shared_ptr<Scope> parent;
    std::vector<std::pair<std::int32_t, Value>> variables;
    void set(std::int32_t name, Value value);
    const Value* find(std::int32_t name) const;
  };

  // A running `for`. A loop whose body reads `loop` and that has a condition goes over its items twice, so that it knows its
  // length: pass 1 collects, pass 2 runs the body. Any other loop makes one pass, 0.
  struct Loop {
    std::shared_ptr<ListCell> source;
    std::size_t index = 0;
    int pass = 0;
    bool ran = false;
    std::vector<Value> accepted;
    Value current;
    std::shared_ptr<LoopCell> cell;  // null where the body does not read `loop`
    std::int32_t function = -1;
    std::shared_ptr<Scope> scope;  // around the loop
    std::size_t captures = 0, stack = 0;
  };

  // A running macro or recursive loop.
  struct Frame {
    std::size_t return_to = 0;
    std::shared_ptr<Scope> scope;
    std::int64_t loop_depth = 0;
  };

  void execute();
  void step(const Instruction& in);
  void step_loop(const Instruction& in);

  Value pop();
  void push(Value v) { stack_.push_back(std::move(v)); }
  void jump(std::int32_t by) { pc_ = static_cast<std::size_t>(static_cast<std::int64_t>(pc_) - 1 + by); }
  const Value* lookup(std::int32_t name) const;
  void store(std::int32_t name, Value value);
  void push_scope();
  void print(const Value& v);
  void end_capture();

  bool compare(Comparison how, const Value& a, const Value& b);
  void unpack(std::int32_t count);
  void make_dict(std::int32_t count);
  void store_attribute(const Instruction& in);
  void call(const CallShape& shape);
  void call_native(const Instruction& in);
  void enter(std::int32_t function, std::shared_ptr<Scope> scope, std::int64_t loop_depth);
  void bind(const Function& function, std::span<const Value> positional, std::span<const NamedValue> named);
  std::shared_ptr<Scope> closure(const std::weak_ptr<Cell>& scope, bool at_top) const;

  void for_begin(const Instruction& in);
  void for_next(const Instruction& in);
  void start_cell(Loop& loop);
  void leave_to(const Loop& loop);

  // The arguments of a call, taken off the stack.
  struct Gathered {
    std::vector<Value> positional;
    std::vector<NamedValue> named;
    Value stars;  // keeps the names of **kwargs alive
  };
  Gathered gather(const CallShape& shape);

  const Program& program_;
  const ChatLimits limits_;
  Budget budget_;
  std::vector<std::shared_ptr<NamespaceCell>> namespaces_;
  Context context_;

  std::size_t pc_ = 0;
  bool running_ = true;
  std::vector<Value> stack_;
  std::vector<Text> captures_;
  std::size_t captured_ = 0;  // bytes in captures_
  std::vector<Loop> loops_;
  std::vector<Frame> frames_;
  std::shared_ptr<Scope> scope_;  // null at the top
  std::vector<Value> top_;        // variables of the top scope, by name id
  std::vector<bool> top_set_;
};

}  // namespace dsv31::inline v1::text::jinja
