// Tokens to code in one pass: jinja2's grammar (parser.py) with code emitted where that parser makes nodes.
//
// Expressions keep pending operators on a vector and recurse only for brackets, each of which counts against the depth limit;
// blocks are kept on a vector and do not recurse at all.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/error.h"
#include "lib/text/jinja_lexer.h"
#include "lib/text/jinja_program.h"

namespace dsv31::inline v1::text::jinja {

class Compiler {
 public:
  Compiler(std::string_view source, int depth) : tokens_(tokenize(source)), depth_limit_(depth) {}
  Program run();

 private:
  // An open block: what its end tag needs.
  struct Block {
    enum class Kind { if_, if_else, for_, for_else, macro, call, filter, set, with, generation } kind;
    const Lexeme* at;
    std::vector<std::size_t> ends;    // jumps to the end of the block
    std::size_t next = 0;             // if: the jump over the branch; macro, call: over the body
    std::size_t begin = 0, loop = 0;  // for: for_begin and for_next
    std::vector<std::size_t> breaks;
    std::int32_t function = -1;  // macro, call, recursive for
    Instructions after;          // filter, set: what follows the captured text; call: the call
  };

  // jinja_statements.cc: tags.
  void template_body();
  void tag();
  void tag_if();
  void tag_elif(bool is_else);
  void tag_for();
  void tag_macro();
  void tag_call();
  void tag_filter();
  void tag_set();
  void tag_with();
  void tag_print();
  void tag_loop_control(bool is_break);
  void end_tag(const Lexeme& name);
  void close_for(Block& block);
  std::vector<Instructions> signature(Function& function);
  void begin_function(Block& block, const std::vector<Instructions>& defaults);
  Block& open(Block::Kind kind, const Lexeme& at);
  void end_of_tag();

  // jinja_expressions.cc: what stands inside them.
  void tuple(bool with_condition = true, bool parentheses = false);
  void expression(bool with_condition = true);
  void operators();
  void operand();
  void primary(const Lexeme& token);
  void postfix();
  void subscript(const Lexeme& at);
  void filter_or_test();
  void call_arguments(CallShape& shape);
  void one_filter();
  void one_test();
  void missing(const Lexeme& at, std::string what, Code code);
  [[gnu::noinline]] void missing_filter(const Lexeme& at, std::string_view name);
  [[gnu::noinline]] void missing_test(const Lexeme& at, std::string_view name);
  [[noreturn, gnu::noinline]] void no_expression(const Lexeme& token) const;
  [[noreturn, gnu::noinline]] void no_member(const Lexeme& token) const;
  [[gnu::noinline]] std::string dotted_name();
  Instructions assign_target(bool with_namespace);
  Instructions target_item(bool with_namespace);

  // tokens
  const Lexeme& peek(std::size_t ahead = 0) const { return tokens_[std::min(position_ + ahead, tokens_.size() - 1)]; }
  const Lexeme& next() { return position_ + 1 < tokens_.size() ? tokens_[position_++] : tokens_.back(); }
  bool is_name(std::string_view name, std::size_t ahead = 0) const {
    return peek(ahead).type == TokenType::name && peek(ahead).text == name;
  }
  bool is_op(std::string_view op, std::size_t ahead = 0) const {
    return peek(ahead).type == TokenType::op && peek(ahead).text == op;
  }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  [[gnu::noinline]] void expect_op(std::string_view op);
  const Lexeme& expect_name();
  [[noreturn]] void fail(const Lexeme& at, std::string_view what, Code code = Code::format) const;
  [[noreturn, gnu::noinline]] void unexpected(std::string_view expected) const;
  static std::string describe(const Lexeme& token);

  // code
  std::size_t emit(Op op, const Lexeme& at, std::int32_t a = 0, std::int32_t b = 0);
  std::size_t here() const { return program_.code.size(); }
  void patch(std::size_t jump);                      // to here, in field a
  void patch_b(std::size_t jump);                    // in field b
  void jump_back(std::size_t jump, std::size_t to);  // field a
  Instructions take(std::size_t from);               // cuts the code from there on
  void append(const Instructions& piece);
  std::int32_t name_id(std::string_view name);
  std::int32_t constant(Value value);
  std::int32_t text_constant(std::string_view text);
  std::int32_t shape(CallShape shape);
  void load_name(const Lexeme& token);
  void nest(const Lexeme& at) {
    if (++depth_ > depth_limit_) deeper(at);
  }
  [[noreturn, gnu::noinline]] void deeper(const Lexeme& at) const;
  bool soft() const;

  std::vector<Lexeme> tokens_;
  std::size_t position_ = 0;
  int depth_ = 0, depth_limit_;
  Program program_;
  std::vector<Block> blocks_;
  std::map<std::string, std::int32_t, std::less<>> name_ids_, text_ids_;

  // Filters and tests that do not exist and are not under a condition: an error unless a ternary around them follows.
  struct Missing {
    const Lexeme* at;
    std::string what;
    Code code;
  };
  std::vector<Missing> missing_;
  bool soft_test_ = false;  // in the condition of an if tag
};

}  // namespace dsv31::inline v1::text::jinja
