#include "lib/text/jinja_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/text/jinja_lexer.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text::jinja {

Machine::Machine(const Program& program, const ChatLimits& limits, std::int64_t now)
    : program_(program), limits_(limits), budget_(limits), context_{budget_, now, namespaces_, program.names} {}

// Namespaces may hold each other: they are emptied while the list still holds them, so nothing is freed through another.
Machine::~Machine() {
  stack_.clear();
  loops_.clear();
  frames_.clear();
  scope_.reset();
  top_.clear();
  for (const auto& cell : namespaces_) DictCell::Items().swap(cell->items);
}

Text Machine::run(const Variables& variables) {
  top_.resize(program_.names.size());
  top_set_.resize(program_.names.size());
  for (std::size_t i = 0; i < program_.names.size(); ++i) {
    const int global = find_global(program_.names[i]);
    const auto it = std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == program_.names[i]; });
    if (it != variables.end()) {
      top_[i] = it->second;
    } else if (global >= 0) {
      top_[i] = Value(Kind::function, std::make_shared<FunctionCell>(global));
    } else {
      continue;
    }
    top_set_[i] = true;
  }
  captures_.emplace_back();
  try {
    execute();
  } catch (const Fault& fault) {
    const Instruction& in = program_.code[pc_ ? pc_ - 1 : 0];
    template_error(fault.code, in.line, in.column, fault.what);
  }
  return std::move(captures_.front());
}

void Machine::execute() {
  while (running_) {
    const Instruction& in = program_.code[pc_++];
    budget_.spend(1);
    if (in.op >= Op::for_begin) {
      step_loop(in);
    } else {
      step(in);
    }
  }
}

void Machine::step(const Instruction& in) {
  const auto binary = [&](auto&& function) {
    const Value b = pop(), a = pop();
    push(function(a, b));
  };
  const auto arithmetic_of = [&](Arithmetic op) {
    binary([&](const Value& a, const Value& b) { return arithmetic(context_, op, a, b); });
  };
  const auto top_items = [&](std::int32_t n) {
    const auto begin = stack_.end() - n;
    std::vector<Value> items(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    return items;
  };
  switch (in.op) {
    case Op::constant:
      push(program_.constants[static_cast<std::size_t>(in.a)]);
      return;
    case Op::push_undefined:
      push(Value::undefined(Lack::element));
      return;
    case Op::load: {
      const Value* v = lookup(in.a);
      push(v ? *v : Value::undefined(Lack::name, in.a));
      return;
    }
    case Op::store:
      store(in.a, pop());
      return;
    case Op::store_attribute:
      store_attribute(in);
      return;
    case Op::attribute: {
      const Value object = pop();
      push(get_attribute(context_, object, program_.names[static_cast<std::size_t>(in.a)], in.a));
      return;
    }
    case Op::item:
      binary([&](const Value& a, const Value& b) { return get_item(context_, a, b); });
      return;
    case Op::slice: {
      const Value step = pop(), stop = pop(), start = pop(), object = pop();
      push(get_slice(context_, object, start, stop, step));
      return;
    }
    case Op::pop:
      pop();
      return;
    case Op::unpack:
      unpack(in.a);
      return;
    case Op::make_list:
      push(budget_.list(top_items(in.a)));
      return;
    case Op::make_tuple:
      push(budget_.list(top_items(in.a), Flavour::tuple));
      return;
    case Op::make_dict:
      make_dict(in.a);
      return;
    case Op::unary_not:
      push(Value::boolean(!truth(pop())));
      return;
    case Op::negate:
      push(signed_value(context_, pop(), true));
      return;
    case Op::plus:
      push(signed_value(context_, pop(), false));
      return;
    case Op::add:
      binary([&](const Value& a, const Value& b) { return add(context_, a, b); });
      return;
    case Op::subtract:
      arithmetic_of(Arithmetic::subtract);
      return;
    case Op::multiply:
      arithmetic_of(Arithmetic::multiply);
      return;
    case Op::divide:
      arithmetic_of(Arithmetic::divide);
      return;
    case Op::floor_divide:
      arithmetic_of(Arithmetic::floor_divide);
      return;
    case Op::modulo:
      arithmetic_of(Arithmetic::modulo);
      return;
    case Op::power:
      arithmetic_of(Arithmetic::power);
      return;
    case Op::concat: {
      const std::vector<Value> items = top_items(in.a);
      push(concat(context_, items));
      return;
    }
    case Op::compare:
      binary([&](const Value& a, const Value& b) { return Value::boolean(compare(static_cast<Comparison>(in.a), a, b)); });
      return;
    case Op::chain: {
      Value b = pop();
      const Value a = pop();
      if (compare(static_cast<Comparison>(in.a), a, b)) {
        push(std::move(b));
      } else {
        push(Value::boolean(false));
        jump(in.b);
      }
      return;
    }
    case Op::jump:
      jump(in.a);
      return;
    case Op::jump_if_false:
      if (!truth(pop())) jump(in.a);
      return;
    case Op::keep_if_false:
    case Op::keep_if_true:
      if (truth(stack_.back()) == (in.op == Op::keep_if_true)) {
        jump(in.a);
      } else {
        pop();
      }
      return;
    case Op::call:
      call(program_.shapes[static_cast<std::size_t>(in.a)]);
      return;
    case Op::filter:
    case Op::test:
      call_native(in);
      return;
    case Op::missing:
      refuse(program_.constants[static_cast<std::size_t>(in.a)].text().bytes(), static_cast<Code>(in.b));
    case Op::print: {
      const Value v = pop();
      if (in.flags & kPrintString) need_string(v, "the result of a filter block");
      print(v);
      return;
    }
    case Op::print_constant:
      print(program_.constants[static_cast<std::size_t>(in.a)]);
      return;
    case Op::push_scope:
      push_scope();
      return;
    case Op::pop_scope:
      scope_ = scope_->parent;
      return;
    case Op::begin_capture:
      captures_.emplace_back();
      return;
    case Op::end_capture:
      end_capture();
      return;
    case Op::make_macro: {
      auto cell = std::make_shared<MacroCell>();
      cell->function = in.a;
      cell->name = program_.functions[static_cast<std::size_t>(in.a)].name;
      cell->scope = scope_;
      cell->at_top = !scope_;
      push(Value(Kind::macro, std::move(cell)));
      return;
    }
    case Op::call_loop: {
      Value iterable = pop();
      enter(in.a, scope_, 0);
      push(std::move(iterable));
      return;
    }
    case Op::default_argument: {
      const auto& variables = scope_->variables;
      if (std::any_of(variables.begin(), variables.end(), [&](const auto& v) { return v.first == in.a; })) jump(in.b);
      return;
    }
    case Op::do_return:
      if (frames_.empty()) {
        running_ = false;
        return;
      }
      end_capture();
      pc_ = frames_.back().return_to;
      scope_ = std::move(frames_.back().scope);
      frames_.pop_back();
      return;
    default:
      return;
  }
}

Value Machine::pop() {
  Value v = std::move(stack_.back());
  stack_.pop_back();
  return v;
}

void Machine::Scope::set(std::int32_t name, Value value) {
  for (auto& [id, v] : variables) {
    if (id == name) {
      v = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Machine::Scope::find(std::int32_t name) const {
  for (const auto& [id, v] : variables) {
    if (id == name) return &v;
  }
  return nullptr;
}

const Value* Machine::lookup(std::int32_t name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    if (const Value* v = scope->find(name)) return v;
  }
  return top_set_[static_cast<std::size_t>(name)] ? &top_[static_cast<std::size_t>(name)] : nullptr;
}

void Machine::store(std::int32_t name, Value value) {
  if (scope_) {
    scope_->set(name, std::move(value));
  } else {
    top_[static_cast<std::size_t>(name)] = std::move(value);
    top_set_[static_cast<std::size_t>(name)] = true;
  }
}

void Machine::push_scope() {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  scope_ = std::move(scope);
}

void Machine::print(const Value& v) {
  Text& out = captures_.back();
  const std::size_t before = out.size();
  append_str(budget_, out, v);
  captured_ += out.size() - before;
  if (captured_ > limits_.output_bytes) {
    refuse(fmt::format("got an output beyond {} bytes, expected a shorter one", limits_.output_bytes), Code::limit);
  }
}

void Machine::end_capture() {
  Text text = std::move(captures_.back());
  captures_.pop_back();
  captured_ -= text.size();
  push(budget_.text(std::move(text)));
}

bool Machine::compare(Comparison how, const Value& a, const Value& b) {
  const auto ordered = [&] {
    if (a.is(Kind::undefined)) use_undefined(context_, a);
    if (b.is(Kind::undefined)) use_undefined(context_, b);
  };
  switch (how) {
    case Comparison::eq:
      return budget_.equal(a, b);
    case Comparison::ne:
      return !budget_.equal(a, b);
    case Comparison::lt:
      ordered();
      return budget_.less(a, b);
    case Comparison::le:
      ordered();
      return budget_.less(a, b) || budget_.equal(a, b);
    case Comparison::gt:
      ordered();
      return budget_.less(b, a);
    case Comparison::ge:
      ordered();
      return budget_.less(b, a) || budget_.equal(a, b);
    case Comparison::in:
      return contains(context_, b, a);
    case Comparison::not_in:
      return !contains(context_, b, a);
  }
  return false;
}

void Machine::unpack(std::int32_t count) {
  const Value v = pop();
  std::vector<Value> items = items_of(context_, v, "an assignment to several names");
  if (static_cast<std::int64_t>(items.size()) != count)
    refuse(fmt::format("got {} values to unpack, expected {}", items.size(), count));
  for (auto item = items.rbegin(); item != items.rend(); ++item) push(std::move(*item));
}

void Machine::make_dict(std::int32_t count) {
  DictCell::Items items;
  const std::size_t begin = stack_.size() - 2 * static_cast<std::size_t>(count);
  for (std::size_t i = begin; i < stack_.size(); i += 2) budget_.put(items, std::move(stack_[i]), std::move(stack_[i + 1]));
  stack_.resize(begin);
  push(budget_.dict(std::move(items)));
}

void Machine::store_attribute(const Instruction& in) {
  Value value = pop();
  const Value* target = lookup(in.a);
  if (!target || !target->is(Kind::name_space))
    refuse("got an assignment to an attribute of no namespace, expected namespace(...)");
  NamespaceCell& cell = target->as<NamespaceCell>();
  const std::string& name = program_.names[static_cast<std::size_t>(in.b)];
  if (Value* old = cell.find(name)) {
    *old = std::move(value);
  } else {
    cell.items.emplace_back(budget_.text(name), std::move(value));
  }
}

Machine::Gathered Machine::gather(const CallShape& shape) {
  Gathered g;
  if (shape.stars) g.stars = pop();
  const Value star = shape.star ? pop() : Value();
  const std::size_t named = stack_.size() - shape.names.size();
  const std::size_t positional = named - static_cast<std::size_t>(shape.positional);
  for (std::size_t i = positional; i < named; ++i) g.positional.push_back(std::move(stack_[i]));
  if (shape.star) {
    std::vector<Value> rest = items_of(context_, star, "*args");
    g.positional.insert(g.positional.end(), rest.begin(), rest.end());
  }
  for (std::size_t i = 0; i < shape.names.size(); ++i) g.named.emplace_back(shape.names[i], std::move(stack_[named + i]));
  stack_.resize(positional);
  if (shape.stars) {
    if (!g.stars.is(Kind::dict)) refuse(fmt::format("got a {} as **kwargs, expected a dict", type_name(g.stars)));
    for (const auto& [key, value] : g.stars.dict().items) {
      if (!key.is(Kind::string)) refuse("got a key of **kwargs that is no string, expected strings");
      g.named.emplace_back(key.text().view(), value);
    }
  }
  if (g.named.size() > 64) refuse("got more than 64 named arguments, expected fewer", Code::limit);
  return g;
}

void Machine::call_native(const Instruction& in) {
  const Gathered g = gather(program_.shapes[static_cast<std::size_t>(in.b)]);
  const Value input = pop();
  Arguments arguments(in.op == Op::filter ? "this filter" : "this test", g.positional, g.named);
  push(in.op == Op::filter ? call_filter(context_, in.a, input, arguments)
                           : Value::boolean(call_test(context_, in.a, input, arguments)));
}

void Machine::call(const CallShape& shape) {
  Gathered g = gather(shape);
  const Value callee = pop();
  if (shape.caller) g.named.emplace_back("caller", pop());
  switch (callee.kind()) {
    case Kind::undefined:
      use_undefined(context_, callee);
    case Kind::macro: {
      const MacroCell& macro = callee.as<MacroCell>();
      enter(macro.function, closure(macro.scope, macro.at_top), 0);
      push_scope();
      bind(program_.functions[static_cast<std::size_t>(macro.function)], g.positional, g.named);
      return;
    }
    case Kind::loop: {
      const LoopCell& loop = callee.as<LoopCell>();
      if (loop.function < 0) refuse("got a call of loop, expected a loop that is marked recursive");
      if (g.positional.size() != 1 || !g.named.empty()) refuse("got other arguments of loop, expected one list");
      enter(loop.function, closure(loop.scope, loop.at_top), loop.depth0 + 1);
      push(std::move(g.positional[0]));
      return;
    }
    case Kind::function: {
      const int id = callee.as<FunctionCell>().id;
      Arguments arguments(global_name(id), g.positional, g.named);
      push(call_global(context_, id, arguments));
      return;
    }
    case Kind::method: {
      const MethodCell& method = callee.as<MethodCell>();
      Arguments arguments(method_name(method.id), g.positional, g.named);
      push(call_method(context_, method.id, method.self, arguments));
      return;
    }
    case Kind::joiner: {
      Arguments("joiner", g.positional, g.named).done();
      JoinerCell& joiner = callee.as<JoinerCell>();
      push(joiner.used ? joiner.separator : budget_.text(Text()));
      joiner.used = true;
      return;
    }
    default:
      refuse(fmt::format("got a call of a {}, expected a function", type_name(callee)));
  }
}

std::shared_ptr<Machine::Scope> Machine::closure(const std::weak_ptr<Cell>& scope, bool at_top) const {
  if (at_top) return nullptr;
  std::shared_ptr<Cell> cell = scope.lock();
  if (!cell) refuse("got a call of a macro whose block has ended, expected a call inside it", Code::unsupported);
  return std::static_pointer_cast<Scope>(cell);
}

// The next instruction is the function's first; its output goes into a new capture, which do_return pushes.
void Machine::enter(std::int32_t function, std::shared_ptr<Scope> scope, std::int64_t loop_depth) {
  if (static_cast<int>(frames_.size()) >= limits_.depth) {
    refuse(fmt::format("got calls nested deeper than {}, expected at most that", limits_.depth), Code::limit);
  }
  frames_.push_back({pc_, std::move(scope_), loop_depth});
  scope_ = std::move(scope);
  captures_.emplace_back();
  pc_ = static_cast<std::size_t>(program_.functions[static_cast<std::size_t>(function)].entry);
}

// Arguments to parameters by jinja2's rules; parameters with a default that got no value stay unset.
void Machine::bind(const Function& function, std::span<const Value> positional, std::span<const NamedValue> named) {
  std::uint64_t taken = 0;
  const auto take = [&](std::string_view name) -> const Value* {
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (named[i].first != name || (taken >> (i & 63) & 1)) continue;
      taken |= std::uint64_t{1} << (i & 63);
      return &named[i].second;
    }
    return nullptr;
  };
  bool explicit_caller = false;
  const std::size_t count = function.parameters.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t name = function.parameters[i];
    explicit_caller = explicit_caller || name == program_.caller_name;
    const Value* v = i < positional.size() ? &positional[i] : take(program_.names[static_cast<std::size_t>(name)]);
    if (v) {
      scope_->variables.emplace_back(name, *v);
    } else if (i + function.defaults < count) {
      scope_->variables.emplace_back(name, Value::undefined(Lack::name, name));
    }
  }
  if (function.uses_caller && !explicit_caller) {
    const Value* v = take("caller");
    scope_->variables.emplace_back(program_.caller_name, v ? *v : Value::undefined(Lack::name, program_.caller_name));
  }
  if (function.uses_kwargs) {
    DictCell::Items rest;
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (!(taken >> (i & 63) & 1)) budget_.put(rest, budget_.text(named[i].first), named[i].second);
    }
    scope_->variables.emplace_back(program_.kwargs_name, budget_.dict(std::move(rest)));
  } else if (static_cast<std::size_t>(__builtin_popcountll(taken)) != named.size()) {
    refuse(fmt::format("got a named argument that the macro '{}' does not take, expected its parameters",
                       function.name.substr(0, 40)));
  }
  if (function.uses_varargs) {
    const auto rest = positional.subspan(std::min(count, positional.size()));
    scope_->variables.emplace_back(program_.varargs_name, budget_.list({rest.begin(), rest.end()}, Flavour::tuple));
  } else if (positional.size() > count) {
    refuse(fmt::format("got {} arguments for the macro '{}', expected at most {}", positional.size(), function.name.substr(0, 40),
                       count));
  }
}

}  // namespace dsv31::inline v1::text::jinja
