#include <fmt/format.h>

#include "lib/text/jinja_compiler.h"

namespace dsv31::inline v1::text::jinja {

Program compile(std::string_view source, int depth) { return Compiler(source, depth).run(); }

Program Compiler::run() {
  program_.loop_name = name_id("loop");
  program_.caller_name = name_id("caller");
  program_.varargs_name = name_id("varargs");
  program_.kwargs_name = name_id("kwargs");
  template_body();
  if (!missing_.empty()) fail(*missing_[0].at, missing_[0].what, missing_[0].code);
  return std::move(program_);
}

void Compiler::template_body() {
  for (;;) {
    const Lexeme& token = next();
    switch (token.type) {
      case TokenType::data:
        emit(Op::print_constant, token, text_constant(token.text));
        break;
      case TokenType::variable_begin:
        tuple();
        if (peek().type != TokenType::variable_end) unexpected("'}}'");
        next();
        emit(Op::print, token);
        break;
      case TokenType::block_begin:
        tag();
        break;
      case TokenType::end:
        if (!blocks_.empty())
          fail(*blocks_.back().at, fmt::format("got no end of the {} block, expected its end tag", blocks_.back().at->text));
        emit(Op::do_return, token);
        return;
      default:
        fail(token, fmt::format("got {}, expected text or a tag", describe(token)));
    }
  }
}

void Compiler::tag() {
  const Lexeme& name = peek();
  if (name.type != TokenType::name) fail(name, fmt::format("got {}, expected the name of a tag", describe(name)));
  const std::string_view tag = name.text;
  if (tag == "if") {
    tag_if();
  } else if (tag == "elif" || tag == "else") {
    tag_elif(tag == "else");
  } else if (tag == "for") {
    tag_for();
  } else if (tag == "set") {
    tag_set();
  } else if (tag == "macro") {
    tag_macro();
  } else if (tag == "call") {
    tag_call();
  } else if (tag == "filter") {
    tag_filter();
  } else if (tag == "with") {
    tag_with();
  } else if (tag == "print") {
    tag_print();
  } else if (tag == "break" || tag == "continue") {
    tag_loop_control(tag == "break");
  } else if (tag == "generation") {
    open(Block::Kind::generation, next());
    end_of_tag();
    emit(Op::push_scope, name);
  } else if (tag.starts_with("end")) {
    end_tag(next());
    end_of_tag();
  } else {
    for (const std::string_view known : {"include", "import", "from", "extends", "block", "autoescape"}) {
      if (tag == known)
        fail(name, fmt::format("got the tag '{}', expected a template that stands alone", tag), Code::unsupported);
    }
    for (const std::string_view known : {"do", "trans", "pluralize", "debug"}) {
      if (tag == known)
        fail(name, fmt::format("got the tag '{}' of a jinja2 extension, expected tags of plain templates", tag),
             Code::unsupported);
    }
    fail(name, fmt::format("got the unknown tag '{}', expected one of jinja2's", tag.substr(0, 40)));
  }
}

void Compiler::end_of_tag() {
  skip_op(":");
  if (peek().type != TokenType::block_end) unexpected("'%}'");
  next();
}

Compiler::Block& Compiler::open(Block::Kind kind, const Lexeme& at) {
  if (static_cast<int>(blocks_.size()) >= depth_limit_) deeper(at);
  Block block;
  block.kind = kind;
  block.at = &at;
  blocks_.push_back(std::move(block));
  return blocks_.back();
}

void Compiler::tag_if() {
  const Lexeme& at = next();
  soft_test_ = true;
  tuple(false);
  soft_test_ = false;
  end_of_tag();
  const std::size_t jump = emit(Op::jump_if_false, at);
  open(Block::Kind::if_, at).next = jump;
}

void Compiler::tag_elif(bool is_else) {
  const Lexeme& at = next();
  if (blocks_.empty()) fail(at, fmt::format("got '{}' outside of a block, expected it inside if or for", at.text));
  if (blocks_.back().kind == Block::Kind::for_ && is_else) {
    Block& block = blocks_.back();
    end_of_tag();
    close_for(block);
    block.kind = Block::Kind::for_else;
    emit(Op::push_scope, at);
    return;
  }
  if (blocks_.back().kind != Block::Kind::if_)
    fail(at, fmt::format("got '{}' inside '{}', expected its end tag", at.text, blocks_.back().at->text));
  const std::size_t jump = emit(Op::jump, at);
  blocks_.back().ends.push_back(jump);
  patch(blocks_.back().next);
  if (is_else) {
    end_of_tag();
    blocks_.back().kind = Block::Kind::if_else;
    return;
  }
  soft_test_ = true;
  tuple(false);
  soft_test_ = false;
  end_of_tag();
  const std::size_t next_jump = emit(Op::jump_if_false, at);
  blocks_.back().next = next_jump;
}

void Compiler::tag_for() {
  const Lexeme& at = next();
  const Instructions target = assign_target(false);
  if (!skip_name("in")) unexpected("'in'");
  tuple(false);
  Instructions condition;
  const bool filtered = skip_name("if");
  if (filtered) {
    const std::size_t start = here();
    expression();
    condition = take(start);
  }
  const bool recursive = skip_name("recursive");
  end_of_tag();

  Block& block = open(Block::Kind::for_, at);
  if (recursive) {
    block.function = static_cast<std::int32_t>(program_.functions.size());
    program_.functions.emplace_back("loop");
    emit(Op::call_loop, at, block.function);
    emit(Op::print, at);
    block.next = emit(Op::jump, at);
    program_.functions.back().entry = static_cast<std::int32_t>(here());
  }
  block.begin = emit(Op::for_begin, at, block.function);
  program_.code.back().flags = static_cast<std::uint8_t>((recursive ? kLoopUsed : 0) | (filtered ? kLoopCondition : 0));
  block.loop = emit(Op::for_next, at);
  append(target);
  if (filtered) {
    const std::size_t gate = emit(Op::for_gate, at);
    append(condition);
    jump_back(emit(Op::for_test, at), block.loop);
    patch(gate);
  }
  emit(Op::for_body, at);
}

// Ends the body of a for: everything up to the else part.
void Compiler::close_for(Block& block) {
  emit(Op::for_ran, *block.at);
  jump_back(emit(Op::jump, *block.at), block.loop);
  patch(block.loop);
  for (const std::size_t jump : block.breaks) patch(jump);
  block.begin = emit(Op::for_end, *block.at, 1);
}

void Compiler::tag_loop_control(bool is_break) {
  const Lexeme& at = next();
  end_of_tag();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    Block& block = blocks_[i];
    if (block.kind == Block::Kind::macro || block.kind == Block::Kind::call) break;
    if (block.kind != Block::Kind::for_) continue;
    const std::size_t jump = emit(is_break ? Op::for_break : Op::for_continue, at);
    if (is_break) {
      block.breaks.push_back(jump);
    } else {
      jump_back(jump, block.loop);
    }
    return;
  }
  fail(at, fmt::format("got '{}' outside of a loop, expected it inside for", at.text));
}

std::vector<Instructions> Compiler::signature(Function& function) {
  std::vector<Instructions> defaults;
  expect_op("(");
  while (!is_op(")")) {
    if (!function.parameters.empty()) expect_op(",");
    const Lexeme& name = expect_name();
    const std::int32_t id = name_id(name.text);
    if (std::find(function.parameters.begin(), function.parameters.end(), id) != function.parameters.end()) {
      fail(name, "got a parameter twice, expected distinct names");
    }
    function.parameters.push_back(id);
    if (skip_op("=")) {
      const std::size_t start = here();
      expression();
      defaults.push_back(take(start));
    } else if (id == program_.caller_name) {
      fail(name, "got the parameter 'caller' without a default, expected a default or another name");
    } else if (!defaults.empty()) {
      fail(name, "got a parameter without default after one with, expected a default");
    }
  }
  expect_op(")");
  return defaults;
}

// The function's code starts here, behind a jump over it; block.next is that jump.
void Compiler::begin_function(Block& block, const std::vector<Instructions>& defaults) {
  block.next = emit(Op::jump, *block.at);
  Function& function = program_.functions[static_cast<std::size_t>(block.function)];
  function.entry = static_cast<std::int32_t>(here());
  function.defaults = defaults.size();
  const std::size_t first = function.parameters.size() - defaults.size();
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    const std::int32_t name = function.parameters[first + i];
    const std::size_t given = emit(Op::default_argument, *block.at, name);
    append(defaults[i]);
    emit(Op::store, *block.at, name);
    patch_b(given);
  }
}

void Compiler::tag_macro() {
  const Lexeme& at = next();
  const Lexeme& name = expect_name();
  Function function(name.text);
  const std::vector<Instructions> defaults = signature(function);
  end_of_tag();
  const auto id = static_cast<std::int32_t>(program_.functions.size());
  program_.functions.push_back(std::move(function));
  emit(Op::make_macro, at, id);
  emit(Op::store, at, name_id(name.text));
  Block& block = open(Block::Kind::macro, at);
  block.function = id;
  begin_function(block, defaults);
}

void Compiler::tag_call() {
  const Lexeme& at = next();
  Function function("");
  std::vector<Instructions> defaults;
  if (is_op("(")) defaults = signature(function);
  const std::size_t start = here();
  expression();
  Instructions call = take(start);
  if (call.empty() || call.back().op != Op::call) fail(at, "got no call in a call tag, expected {% call name(...) %}");
  program_.shapes[static_cast<std::size_t>(call.back().a)].caller = true;
  end_of_tag();
  const auto id = static_cast<std::int32_t>(program_.functions.size());
  program_.functions.push_back(std::move(function));
  emit(Op::make_macro, at, id);
  Block& block = open(Block::Kind::call, at);
  block.function = id;
  block.after = std::move(call);
  begin_function(block, defaults);
}

void Compiler::tag_filter() {
  const Lexeme& at = next();
  const std::size_t start = here();
  one_filter();
  while (skip_op("|")) one_filter();
  Instructions filters = take(start);
  end_of_tag();
  open(Block::Kind::filter, at).after = std::move(filters);
  emit(Op::begin_capture, at);
  emit(Op::push_scope, at);
}

void Compiler::tag_set() {
  const Lexeme& at = next();
  const Instructions target = assign_target(true);
  if (skip_op("=")) {
    tuple();
    append(target);
    end_of_tag();
    return;
  }
  const std::size_t start = here();
  while (skip_op("|")) one_filter();
  Instructions after = take(start);
  after.insert(after.end(), target.begin(), target.end());
  end_of_tag();
  open(Block::Kind::set, at).after = std::move(after);
  emit(Op::begin_capture, at);
  emit(Op::push_scope, at);
}

void Compiler::tag_with() {
  const Lexeme& at = next();
  std::vector<Instructions> targets;
  while (peek().type != TokenType::block_end && !is_op(":")) {
    if (!targets.empty()) expect_op(",");
    targets.push_back(target_item(false));
    expect_op("=");
    expression();
  }
  end_of_tag();
  open(Block::Kind::with, at);
  emit(Op::push_scope, at);
  for (auto target = targets.rbegin(); target != targets.rend(); ++target) append(*target);
}

void Compiler::tag_print() {
  const Lexeme& at = next();
  for (bool first = true; peek().type != TokenType::block_end; first = false) {
    if (!first) expect_op(",");
    expression();
    emit(Op::print, at);
  }
  end_of_tag();
}

void Compiler::end_tag(const Lexeme& name) {
  using BlockKind = Block::Kind;
  static constexpr std::pair<std::string_view, BlockKind> kEnds[] = {
      {"endif", BlockKind::if_},      {"endif", BlockKind::if_else},
      {"endfor", BlockKind::for_},    {"endfor", BlockKind::for_else},
      {"endmacro", BlockKind::macro}, {"endcall", BlockKind::call},
      {"endset", BlockKind::set},     {"endfilter", BlockKind::filter},
      {"endwith", BlockKind::with},   {"endgeneration", BlockKind::generation},
  };
  const bool known = std::any_of(std::begin(kEnds), std::end(kEnds), [&](const auto& end) { return end.first == name.text; });
  if (!known) fail(name, fmt::format("got the unknown tag '{}', expected one of jinja2's", name.text.substr(0, 40)));
  const bool matches = !blocks_.empty() && std::any_of(std::begin(kEnds), std::end(kEnds), [&](const auto& end) {
    return end.first == name.text && end.second == blocks_.back().kind;
  });
  if (!matches) {
    fail(name, blocks_.empty() ? fmt::format("got '{}' without a block, expected none", name.text)
                               : fmt::format("got '{}', expected the end of '{}'", name.text, blocks_.back().at->text));
  }
  Block block = std::move(blocks_.back());
  blocks_.pop_back();
  switch (block.kind) {
    case BlockKind::if_:
      patch(block.next);
      [[fallthrough]];
    case BlockKind::if_else:
      for (const std::size_t jump : block.ends) patch(jump);
      break;
    case BlockKind::for_:
    case BlockKind::for_else:
      if (block.kind == BlockKind::for_) {
        close_for(block);
      } else {
        emit(Op::pop_scope, name);
        patch(block.begin);
      }
      if (block.function >= 0) {
        emit(Op::do_return, name);
        patch(block.next);
      }
      break;
    case BlockKind::macro:
    case BlockKind::call:
      emit(Op::do_return, name);
      patch(block.next);
      if (block.kind == BlockKind::call) {
        append(block.after);
        emit(Op::print, name);
      }
      break;
    case BlockKind::filter:
    case BlockKind::set:
      emit(Op::pop_scope, name);
      emit(Op::end_capture, name);
      append(block.after);
      if (block.kind == BlockKind::filter) program_.code[emit(Op::print, name)].flags = kPrintString;
      break;
    case BlockKind::with:
    case BlockKind::generation:
      emit(Op::pop_scope, name);
      break;
  }
}

bool Compiler::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool Compiler::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

void Compiler::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected(fmt::format("'{}'", op));
}

const Lexeme& Compiler::expect_name() {
  if (peek().type != TokenType::name) unexpected("a name");
  return next();
}

void Compiler::fail(const Lexeme& at, std::string_view what, Code code) const { template_error(code, at.line, at.column, what); }

void Compiler::unexpected(std::string_view expected) const {
  fail(peek(), fmt::format("got {}, expected {}", describe(peek()), expected));
}

void Compiler::deeper(const Lexeme& at) const {
  fail(at, fmt::format("got a nesting deeper than {}, expected at most that", depth_limit_), Code::limit);
}

std::string Compiler::describe(const Lexeme& token) {
  switch (token.type) {
    case TokenType::data:
      return "text";
    case TokenType::variable_begin:
      return "'{{'";
    case TokenType::variable_end:
      return "'}}'";
    case TokenType::block_begin:
      return "'{%'";
    case TokenType::block_end:
      return "'%}'";
    case TokenType::name:
      return fmt::format("the name '{}'", std::string_view(token.text).substr(0, 40));
    case TokenType::string:
      return "a string";
    case TokenType::integer:
    case TokenType::floating:
      return "a number";
    case TokenType::op:
      return fmt::format("'{}'", token.text);
    case TokenType::end:
      return "the end of the template";
  }
  return "a token";
}

std::size_t Compiler::emit(Op op, const Lexeme& at, std::int32_t a, std::int32_t b) {
  program_.code.push_back({op, 0, a, b, at.line, at.column});
  return program_.code.size() - 1;
}

void Compiler::patch(std::size_t jump) { program_.code[jump].a = static_cast<std::int32_t>(here() - jump); }
void Compiler::patch_b(std::size_t jump) { program_.code[jump].b = static_cast<std::int32_t>(here() - jump); }
void Compiler::jump_back(std::size_t jump, std::size_t to) {
  program_.code[jump].a = static_cast<std::int32_t>(static_cast<std::int64_t>(to) - static_cast<std::int64_t>(jump));
}

Instructions Compiler::take(std::size_t from) {
  const auto begin = program_.code.begin() + static_cast<std::ptrdiff_t>(from);
  Instructions piece(begin, program_.code.end());
  program_.code.erase(begin, program_.code.end());
  return piece;
}

void Compiler::append(const Instructions& piece) { program_.code.insert(program_.code.end(), piece.begin(), piece.end()); }

std::int32_t Compiler::name_id(std::string_view name) {
  const auto it = name_ids_.find(name);
  if (it != name_ids_.end()) return it->second;
  const auto id = static_cast<std::int32_t>(program_.names.size());
  program_.names.emplace_back(name);
  name_ids_.emplace(std::string(name), id);
  return id;
}

std::int32_t Compiler::constant(Value value) {
  program_.constants.push_back(std::move(value));
  return static_cast<std::int32_t>(program_.constants.size() - 1);
}

std::int32_t Compiler::text_constant(std::string_view text) {
  const auto it = text_ids_.find(text);
  if (it != text_ids_.end()) return it->second;
  const std::int32_t id = constant(Value::constant(text, true));
  text_ids_.emplace(std::string(text), id);
  return id;
}

std::int32_t Compiler::shape(CallShape arguments) {
  program_.shapes.push_back(std::move(arguments));
  return static_cast<std::int32_t>(program_.shapes.size() - 1);
}

void Compiler::load_name(const Lexeme& token) {
  const std::string_view name = token.text;
  if (name == "loop") {
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].kind != Block::Kind::for_) continue;
      program_.code[blocks_[i].begin].flags |= kLoopUsed;
      break;
    }
  } else if (name == "caller" || name == "varargs" || name == "kwargs") {
    for (const Block& block : blocks_) {
      if (block.kind != Block::Kind::macro && block.kind != Block::Kind::call) continue;
      Function& function = program_.functions[static_cast<std::size_t>(block.function)];
      (name == "caller" ? function.uses_caller : name == "varargs" ? function.uses_varargs : function.uses_kwargs) = true;
    }
  } else if (name == "thinking" || name == "enable_thinking") {
    program_.reads_thinking = true;
  }
  emit(Op::load, token, name_id(name));
}

bool Compiler::soft() const {
  if (soft_test_) return true;
  return !blocks_.empty() && (blocks_.back().kind == Block::Kind::if_ || blocks_.back().kind == Block::Kind::if_else);
}

}  // namespace dsv31::inline v1::text::jinja
