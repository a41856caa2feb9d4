// A compiled template: code for the stack machine in jinja_machine.h.
//
// Compiling to flat code instead of walking a tree keeps the machine's C++ stack the same for every template: nesting lives in
// vectors whose sizes are limits, and a step of fuel is an instruction. Jumps are relative, so a piece of code can be moved,
// which is how "a if c else b" is put in the order c, a, b.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/chat.h"
#include "lib/text/jinja_value.h"

namespace dsv31::inline v1::text::jinja {

enum class Op : std::uint8_t {
  constant,  // push constants[a]
  push_undefined,
  load,             // push the variable names[a]
  store,            // pop into it, in the current scope
  store_attribute,  // pop into attribute names[b] of the namespace in variable names[a]
  attribute,        // pop x, push x.names[a]
  item,             // pop key, x; push x[key]
  slice,            // pop step, stop, start, x; push x[start:stop:step]
  pop,
  unpack,  // pop a sequence of exactly a items, push them last to first
  make_list,
  make_tuple,  // of the a topmost
  make_dict,   // of a key-value pairs
  unary_not,
  negate,
  plus,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concat,          // the a topmost as strings
  compare,         // pop y, x; push x <Comparison a> y
  chain,           // the same inside a < b < c: false: push it and jump by b; true: push y
  jump,            // by a
  jump_if_false,   // pops
  keep_if_false,   // `and`: jump by a if the top is false, else pop it
  keep_if_true,    // `or`
  call,            // shapes[a]: callee and arguments are on the stack
  filter,          // filters()[a], shapes[b]
  test,            // tests()[a], shapes[b]
  missing,         // run time error: filter or test constants[a] does not exist
  print,           // pop to the output
  print_constant,  // constants[a] to the output
  push_scope,
  pop_scope,
  begin_capture,
  end_capture,       // output into a string, which is pushed
  make_macro,        // push functions[a] closed over the current scope
  call_loop,         // pop an iterable, run functions[a], a recursive loop, over it, push the text
  default_argument,  // parameter names[a] was given: jump by b
  do_return,
  for_begin,  // pop the iterable; flags below
  for_next,   // push the next item in a new scope; past the end: jump by a
  for_gate,   // second pass over items that passed the condition: jump by a
  for_test,   // pop the condition; not for this pass: jump by a
  for_body,   // the body runs: `loop` gets its value
  for_ran,    // the body ran to its end, so the else part will not
  for_end,    // leave the loop; jump by a (over else) after for_ran
  for_break,
  for_continue,  // drop what the body had open, jump by a
};

inline constexpr std::uint8_t kPrintString = 1;    // print: of a filter block, whose result must be a string
inline constexpr std::uint8_t kLoopUsed = 1;       // the body reads `loop`
inline constexpr std::uint8_t kLoopCondition = 2;  // `for x in xs if condition`

enum class Comparison : std::int32_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Instruction {
  Op op;
  std::uint8_t flags = 0;
  std::int32_t a = 0, b = 0;
  std::uint32_t line = 0, column = 0;
};
using Instructions = std::vector<Instruction>;

// How arguments lie on the stack: [caller] callee positional... named values... [*star] [**stars].
struct CallShape {
  int positional = 0;
  std::vector<std::string> names;
  bool star = false, stars = false, caller = false;
};

struct Function {
  explicit Function(std::string_view n) : name(n) {}
  std::string name;
  std::int32_t entry = 0;
  std::vector<std::int32_t> parameters;  // name ids
  std::size_t defaults = 0;              // of how many parameters at the end
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Program {
  Instructions code;
  std::vector<Value> constants;
  std::vector<std::string> names;  // variables and attributes
  std::vector<CallShape> shapes;
  std::vector<Function> functions;
  std::int32_t loop_name = -1, caller_name = -1, varargs_name = -1, kwargs_name = -1;
  bool reads_thinking = false;
};

// Throws Error: format (line:column), unsupported (the construct), limit (nesting beyond `depth`).
Program compile(std::string_view source, int depth);

}  // namespace dsv31::inline v1::text::jinja
