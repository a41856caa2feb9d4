// The part of the machine that runs `for`.
#include <algorithm>

#include "lib/text/jinja_machine.h"

namespace dsv31::inline v1::text::jinja {

void Machine::step_loop(const Instruction& in) {
  switch (in.op) {
    case Op::for_begin:
      for_begin(in);
      return;
    case Op::for_next:
      for_next(in);
      return;
    case Op::for_gate:
      if (loops_.back().pass == 2) jump(in.a);
      return;
    case Op::for_test: {
      const bool passes = truth(pop());
      Loop& loop = loops_.back();
      if (loop.pass == 1 && passes) loop.accepted.push_back(std::move(loop.current));
      if (loop.pass == 1 || !passes) jump(in.a);
      return;
    }
    case Op::for_body: {
      const Loop& loop = loops_.back();
      if (!loop.cell) return;
      loop.cell->index0 = static_cast<std::int64_t>(loop.index) - 1;
      scope_->set(program_.loop_name, Value(Kind::loop, loop.cell));
      return;
    }
    case Op::for_ran:
      loops_.back().ran = true;
      return;
    case Op::for_end: {
      const bool ran = loops_.back().ran;
      scope_ = loops_.back().scope;
      loops_.pop_back();
      if (ran) jump(in.a);
      return;
    }
    default:  // for_break, for_continue
      leave_to(loops_.back());
      jump(in.a);
      return;
  }
}

void Machine::for_begin(const Instruction& in) {
  const Value iterable = pop();
  Loop loop;
  loop.function = in.a;
  loop.scope = scope_;
  loop.captures = captures_.size();
  loop.stack = stack_.size();
  const bool used = (in.flags & kLoopUsed) != 0, condition = (in.flags & kLoopCondition) != 0;
  const bool once = iterable.is(Kind::list) && iterable.list().flavour == Flavour::generator;
  if (iterable.is(Kind::list) && !(once && used)) {
    loop.source = std::static_pointer_cast<ListCell>(iterable.cell());
  } else {
    loop.source = std::static_pointer_cast<ListCell>(budget_.list(items_of(context_, iterable, "for")).cell());
  }
  loop.pass = used && condition ? 1 : 0;
  if (used && !condition) start_cell(loop);
  loops_.push_back(std::move(loop));
}

void Machine::start_cell(Loop& loop) {
  loop.cell = std::make_shared<LoopCell>();
  loop.cell->source = loop.source;
  loop.cell->function = loop.function;
  loop.cell->scope = loop.scope;
  loop.cell->at_top = !loop.scope;
  if (loop.function >= 0) loop.cell->depth0 = frames_.back().loop_depth;
  budget_.check_depth(loop.source->depth + 1);
}

void Machine::for_next(const Instruction& in) {
  Loop& loop = loops_.back();
  scope_ = loop.scope;
  std::size_t& at = loop.source->flavour == Flavour::generator ? loop.source->cursor : loop.index;
  if (at >= loop.source->items.size() && loop.pass == 1) {
    loop.source = std::static_pointer_cast<ListCell>(budget_.list(std::move(loop.accepted)).cell());
    loop.index = 0;
    loop.pass = 2;
    start_cell(loop);
    jump(0);  // this instruction again
    return;
  }
  if (at >= loop.source->items.size()) {
    if (loop.source->failure && loop.source->flavour == Flavour::generator) throw Fault(*loop.source->failure);
    jump(in.a);
    return;
  }
  Value item = loop.source->items[at++];
  push_scope();
  if (loop.pass == 1) loop.current = item;
  push(std::move(item));
}

void Machine::leave_to(const Loop& loop) {
  scope_ = loop.scope;
  captures_.resize(loop.captures);
  captured_ = 0;
  for (const Text& text : captures_) captured_ += text.size();
  stack_.resize(loop.stack);
}

}  // namespace dsv31::inline v1::text::jinja
