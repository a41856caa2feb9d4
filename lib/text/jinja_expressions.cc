#include <fmt/format.h>

#include "lib/text/jinja_compiler.h"
#include "lib/text/jinja_natives.h"

namespace dsv31::inline v1::text::jinja {
namespace {

// Binding strength, weakest first, as jinja2 has it: "~" binds tighter than "+", and "**" is left-associative.
enum Strength { kOr = 1, kAnd, kNot, kCompare, kAdd, kConcat, kMultiply, kPower };

struct Binary {
  int strength;
  Op op;
  Comparison comparison = Comparison::eq;
};

}  // namespace

void Compiler::tuple(bool with_condition, bool parentheses) {
  const Lexeme& at = peek();
  std::int32_t count = 0;
  bool is_tuple = false;
  for (;;) {
    if (count) expect_op(",");
    if (peek().type == TokenType::variable_end || peek().type == TokenType::block_end || is_op(")")) break;
    expression(with_condition);
    ++count;
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple || (count == 0 && parentheses)) {
    emit(Op::make_tuple, at, count);
  } else if (count == 0) {
    unexpected("an expression");
  }
}

void Compiler::expression(bool with_condition) {
  nest(peek());
  const std::size_t start = here();
  const std::size_t mark = missing_.size();
  operators();
  while (with_condition && is_name("if")) {
    const Lexeme& at = next();
    const Instructions then = take(start);
    operators();
    const std::size_t to_else = emit(Op::jump_if_false, at);
    append(then);
    const std::size_t to_end = emit(Op::jump, at);
    patch(to_else);
    if (skip_name("else")) {
      expression();
    } else {
      emit(Op::push_undefined, at);
    }
    patch(to_end);
    missing_.resize(mark);
  }
  --depth_;
}

void Compiler::operators() {
  struct Pending {
    Pending(const Binary& b, const Lexeme& token) : binary(b), at(&token) {}
    Binary binary;
    const Lexeme* at;
    std::size_t jump = 0;             // of and, or
    std::int32_t count = 2;           // operands of ~
    std::vector<std::size_t> chains;  // of a < b < c
  };
  std::vector<Pending> pending;

  const auto reduce = [&] {
    const Pending top = std::move(pending.back());
    pending.pop_back();
    switch (top.binary.op) {
      case Op::keep_if_false:
      case Op::keep_if_true:
        patch(top.jump);
        break;
      case Op::concat:
        emit(Op::concat, *top.at, top.count);
        break;
      case Op::compare:
        emit(Op::compare, *top.at, static_cast<std::int32_t>(top.binary.comparison));
        for (const std::size_t chain : top.chains) patch_b(chain);
        break;
      default:
        emit(top.binary.op, *top.at);
        break;
    }
  };

  const auto binary_here = [&]() -> Binary {
    const Lexeme& token = peek();
    if (token.type == TokenType::name) {
      if (token.text == "or") return {kOr, Op::keep_if_true};
      if (token.text == "and") return {kAnd, Op::keep_if_false};
      if (token.text == "in") return {kCompare, Op::compare, Comparison::in};
      if (token.text == "not" && is_name("in", 1)) return {kCompare, Op::compare, Comparison::not_in};
      return {0, Op::pop};
    }
    if (token.type != TokenType::op) return {0, Op::pop};
    static constexpr std::pair<std::string_view, Binary> kBinary[] = {
        {"==", {kCompare, Op::compare, Comparison::eq}},
        {"!=", {kCompare, Op::compare, Comparison::ne}},
        {"<", {kCompare, Op::compare, Comparison::lt}},
        {"<=", {kCompare, Op::compare, Comparison::le}},
        {">", {kCompare, Op::compare, Comparison::gt}},
        {">=", {kCompare, Op::compare, Comparison::ge}},
        {"+", {kAdd, Op::add}},
        {"-", {kAdd, Op::subtract}},
        {"~", {kConcat, Op::concat}},
        {"*", {kMultiply, Op::multiply}},
        {"/", {kMultiply, Op::divide}},
        {"//", {kMultiply, Op::floor_divide}},
        {"%", {kMultiply, Op::modulo}},
        {"**", {kPower, Op::power}},
    };
    for (const auto& [text, binary] : kBinary) {
      if (token.text == text) return binary;
    }
    return {0, Op::pop};
  };

  for (;;) {
    while (is_name("not") && (pending.empty() || pending.back().binary.strength <= kNot)) {
      pending.emplace_back(Binary{kNot, Op::unary_not}, next());
    }
    operand();
    const Binary binary = binary_here();
    while (!pending.empty() && pending.back().binary.strength > binary.strength) reduce();
    if (binary.strength == 0) return;
    const Lexeme& at = next();
    if (binary.comparison == Comparison::not_in) next();
    if (!pending.empty() && pending.back().binary.strength == binary.strength) {
      Pending& top = pending.back();
      if (binary.op == Op::concat) {
        ++top.count;
        continue;
      }
      if (binary.op == Op::compare) {
        top.chains.push_back(emit(Op::chain, *top.at, static_cast<std::int32_t>(top.binary.comparison)));
        top.binary = binary;
        top.at = &at;
        continue;
      }
      reduce();
    }
    Pending entry(binary, at);
    if (binary.strength <= kAnd) entry.jump = emit(binary.op, at);
    pending.push_back(std::move(entry));
  }
}

void Compiler::operand() {
  std::vector<const Lexeme*> signs;
  while (is_op("-") || is_op("+")) signs.push_back(&next());
  primary(next());
  postfix();
  for (auto sign = signs.rbegin(); sign != signs.rend(); ++sign) emit((*sign)->text == "-" ? Op::negate : Op::plus, **sign);
  filter_or_test();
}

// The recursive functions here build no message themselves: that would make their frames several times as large.
void Compiler::no_expression(const Lexeme& token) const {
  fail(token, fmt::format("got {}, expected an expression", describe(token)));
}
void Compiler::no_member(const Lexeme& token) const {
  fail(token, fmt::format("got {} after '.', expected a name or number", describe(token)));
}

void Compiler::primary(const Lexeme& token) {
  switch (token.type) {
    case TokenType::name:
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
        emit(Op::constant, token, constant(Value::boolean(token.text[0] == 't' || token.text[0] == 'T')));
      } else if (token.text == "none" || token.text == "None") {
        emit(Op::constant, token, constant(Value()));
      } else {
        load_name(token);
      }
      return;
    case TokenType::string: {
      std::string text = token.text;
      while (peek().type == TokenType::string) text += next().text;
      emit(Op::constant, token, text_constant(text));
      return;
    }
    case TokenType::integer:
      emit(Op::constant, token, constant(Value::integer(token.integer)));
      return;
    case TokenType::floating:
      emit(Op::constant, token, constant(Value::floating(token.floating)));
      return;
    case TokenType::op:
      break;
    default:
      no_expression(token);
  }
  if (token.text == "(") {
    tuple(true, true);
    expect_op(")");
  } else if (token.text == "[") {
    std::int32_t count = 0;
    while (!is_op("]")) {
      if (count) expect_op(",");
      if (is_op("]")) break;
      expression();
      ++count;
    }
    expect_op("]");
    emit(Op::make_list, token, count);
  } else if (token.text == "{") {
    std::int32_t count = 0;
    while (!is_op("}")) {
      if (count) expect_op(",");
      if (is_op("}")) break;
      expression();
      expect_op(":");
      expression();
      ++count;
    }
    expect_op("}");
    emit(Op::make_dict, token, count);
  } else {
    no_expression(token);
  }
}

void Compiler::postfix() {
  for (;;) {
    const Lexeme& at = peek();
    if (skip_op(".")) {
      const Lexeme& member = next();
      if (member.type == TokenType::name) {
        emit(Op::attribute, at, name_id(member.text));
      } else if (member.type == TokenType::integer) {
        emit(Op::constant, at, constant(Value::integer(member.integer)));
        emit(Op::item, at);
      } else {
        no_member(member);
      }
    } else if (skip_op("[")) {
      subscript(at);
    } else if (skip_op("(")) {
      CallShape arguments;
      call_arguments(arguments);
      emit(Op::call, at, shape(std::move(arguments)));
    } else {
      return;
    }
  }
}

void Compiler::subscript(const Lexeme& at) {
  std::int32_t count = 0;
  bool slice = false;
  while (!is_op("]")) {
    if (count) expect_op(",");
    if (slice) fail(peek(), "got a tuple of slices, expected one subscript");
    ++count;
    const auto part = [&] {
      if (is_op(":") || is_op("]") || is_op(",")) {
        emit(Op::constant, at, constant(Value()));
      } else {
        expression();
      }
    };
    part();
    if (!skip_op(":")) continue;
    if (count > 1) fail(peek(), "got a tuple of slices, expected one subscript");
    slice = true;
    part();
    if (skip_op(":")) {
      part();
    } else {
      emit(Op::constant, at, constant(Value()));
    }
  }
  expect_op("]");
  if (count == 0) fail(at, "got an empty subscript, expected an expression");
  if (count > 1) emit(Op::make_tuple, at, count);
  emit(slice ? Op::slice : Op::item, at);
}

void Compiler::call_arguments(CallShape& arguments) {
  const Lexeme& at = peek();
  nest(at);  // a call is a level and the argument in it another
  Instructions star, stars;
  bool first = true;
  const auto ensure = [&](bool ok) {
    if (!ok) fail(at, "got arguments out of order or twice, expected positional, named, *args, **kwargs");
  };
  while (!is_op(")")) {
    if (!first) {
      expect_op(",");
      if (is_op(")")) break;
    }
    first = false;
    const std::size_t start = here();
    if (skip_op("*")) {
      ensure(!arguments.star && !arguments.stars);
      arguments.star = true;
      expression();
      star = take(start);
    } else if (skip_op("**")) {
      ensure(!arguments.stars);
      arguments.stars = true;
      expression();
      stars = take(start);
    } else if (peek().type == TokenType::name && is_op("=", 1)) {
      ensure(!arguments.stars);
      const std::string& name = next().text;
      ensure(std::find(arguments.names.begin(), arguments.names.end(), name) == arguments.names.end());
      arguments.names.push_back(name);
      next();
      expression();
    } else {
      ensure(!arguments.star && !arguments.stars && arguments.names.empty());
      ++arguments.positional;
      expression();
    }
    if (arguments.names.size() > 60) fail(at, "got more than 60 named arguments, expected fewer", Code::limit);
  }
  expect_op(")");
  append(star);
  append(stars);
  --depth_;
}

void Compiler::filter_or_test() {
  for (;;) {
    const Lexeme& at = peek();
    if (skip_op("|")) {
      one_filter();
    } else if (skip_name("is")) {
      one_test();
    } else if (skip_op("(")) {
      CallShape arguments;
      call_arguments(arguments);
      emit(Op::call, at, shape(std::move(arguments)));
    } else {
      return;
    }
  }
}

void Compiler::missing(const Lexeme& at, std::string what, Code code) {
  emit(Op::missing, at, text_constant(what), static_cast<std::int32_t>(code));
  if (!soft()) missing_.push_back({&at, std::move(what), code});
}

void Compiler::missing_filter(const Lexeme& at, std::string_view name) {
  missing(at, fmt::format("got the filter '{}', expected one of those that this interpreter has", name.substr(0, 40)),
          jinja2_has_filter(name) ? Code::unsupported : Code::format);
}

void Compiler::missing_test(const Lexeme& at, std::string_view name) {
  missing(at, fmt::format("got the test '{}', expected one of jinja2's", name.substr(0, 40)), Code::format);
}

// Names of filters and tests may have dots.
std::string Compiler::dotted_name() {
  std::string name = expect_name().text;
  while (skip_op(".")) name += '.' + expect_name().text;
  return name;
}

void Compiler::one_filter() {
  const Lexeme& at = peek();
  const std::string name = dotted_name();
  CallShape arguments;
  if (skip_op("(")) call_arguments(arguments);
  const int id = find_filter(name);
  if (id < 0) {
    missing_filter(at, name);
  } else {
    emit(Op::filter, at, id, shape(std::move(arguments)));
  }
}

void Compiler::one_test() {
  const bool negated = skip_name("not");
  const Lexeme& at = peek();
  const std::string name = dotted_name();
  CallShape arguments;
  const Lexeme& token = peek();
  const bool value = token.type == TokenType::string || token.type == TokenType::integer || token.type == TokenType::floating;
  const bool word = token.type == TokenType::name && token.text != "else" && token.text != "or" && token.text != "and";
  if (skip_op("(")) {
    call_arguments(arguments);
  } else if (value || word || is_op("[") || is_op("{")) {
    if (is_name("is")) fail(token, "got a chain of tests with 'is', expected one test");
    nest(token);
    primary(next());
    postfix();
    --depth_;
    arguments.positional = 1;
  }
  const int id = find_test(name);
  if (id < 0) {
    missing_test(at, name);
  } else {
    emit(Op::test, at, id, shape(std::move(arguments)));
  }
  if (negated) emit(Op::unary_not, at);
}

Instructions Compiler::assign_target(bool with_namespace) {
  const Lexeme& at = peek();
  nest(at);
  std::vector<Instructions> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_op(",");
    if (peek().type == TokenType::block_end || is_op(")")) break;
    items.push_back(target_item(with_namespace));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  --depth_;
  if (items.empty()) unexpected("a name to assign to");
  if (!is_tuple) return std::move(items[0]);
  Instructions code{{Op::unpack, 0, static_cast<std::int32_t>(items.size()), 0, at.line, at.column}};
  for (const Instructions& item : items) code.insert(code.end(), item.begin(), item.end());
  return code;
}

Instructions Compiler::target_item(bool with_namespace) {
  if (skip_op("(")) {
    Instructions code = assign_target(false);
    expect_op(")");
    return code;
  }
  const Lexeme& token = next();
  if (token.type != TokenType::name) fail(token, fmt::format("got {}, expected a name to assign to", describe(token)));
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == word) fail(token, fmt::format("got an assignment to {}, expected a name", word));
  }
  if (with_namespace && skip_op(".")) {
    const Lexeme& member = expect_name();
    return {{Op::store_attribute, 0, name_id(token.text), name_id(member.text), token.line, token.column}};
  }
  return {{Op::store, 0, name_id(token.text), 0, token.line, token.column}};
}

}  // namespace dsv31::inline v1::text::jinja
