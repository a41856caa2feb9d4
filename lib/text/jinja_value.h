// Values of the template interpreter: what Python objects a template can meet, and nothing else.
//
// Values are immutable but for namespaces, loops, cyclers and iterators, which the Machine owns and clears when a render ends, so
// that no cycle survives. Lists and dicts know their nesting depth, which is capped: printing, comparing and freeing may recurse.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsv31/error.h"
#include "lib/text/jinja_text.h"

namespace dsv31::inline v1::text::jinja {

inline constexpr int kMaxValueDepth = 128;

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  floating,
  string,
  list,
  dict,
  name_space,
  macro,
  loop,
  function,
  method,
  cycler,
  joiner,
};

// What an undefined value stands for; using it is an error that says so.
enum class Lack : std::uint8_t { name, attribute, unsafe, element };

// A failure inside an operation; the Machine adds line and column.
struct Fault {
  Code code;
  std::string what;
};
[[noreturn]] void refuse(std::string what, Code code = Code::argument);

struct Cell {
  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  virtual ~Cell() = default;
};

// Counts the bytes that live cells hold, for the memory cap of a render.
struct Meter {
  std::size_t live = 0;
};

struct TextCell final : Cell {
  TextCell(Text t, bool m, std::shared_ptr<Meter> counter = nullptr) : text(std::move(t)), markup(m), meter(std::move(counter)) {
    if (meter) meter->live += text.cost() + sizeof(TextCell);
  }
  ~TextCell() override {
    if (meter) meter->live -= text.cost() + sizeof(TextCell);
  }
  const Text text;
  const bool markup;  // Python's Markup: joining escapes plain strings
  const std::shared_ptr<Meter> meter;
};

class Value;
struct ListCell;
struct DictCell;
struct NamespaceCell;
struct MacroCell;
struct LoopCell;
struct FunctionCell;
struct MethodCell;
struct CyclerCell;
struct JoinerCell;

class Value {
 public:
  Value() = default;  // none
  static Value undefined(Lack lack, int name = -1) {
    Value v(Kind::undefined, nullptr);
    v.integer_ = (static_cast<std::int64_t>(name) << 8) | static_cast<std::int64_t>(lack);
    return v;
  }
  static Value boolean(bool b) {
    Value v(Kind::boolean, nullptr);
    v.integer_ = b;
    return v;
  }
  static Value integer(std::int64_t i) {
    Value v(Kind::integer, nullptr);
    v.integer_ = i;
    return v;
  }
  static Value floating(double d) {
    Value v(Kind::floating, nullptr);
    v.floating_ = d;
    return v;
  }
  // A whole number beyond 64 bits: it counts as a double and prints as its digits.
  static Value wide(double d, std::string_view digits) {
    Value v(Kind::floating, std::make_shared<TextCell>(Text(digits, false), false));
    v.floating_ = d;
    return v;
  }
  Value(Kind kind, std::shared_ptr<Cell> cell) : kind_(kind), cell_(std::move(cell)) {}
  // A string that no render owns: constants and inputs.
  static Value constant(std::string_view bytes, bool trusted) {
    return {Kind::string, std::make_shared<TextCell>(Text(bytes, trusted), false)};
  }

  Kind kind() const noexcept { return kind_; }
  bool is(Kind kind) const noexcept { return kind_ == kind; }
  bool is_number() const noexcept { return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::floating; }
  bool is_whole() const noexcept { return kind_ == Kind::boolean || kind_ == Kind::integer; }

  std::int64_t as_int() const noexcept { return integer_; }  // of booleans too
  double as_double() const noexcept { return kind_ == Kind::floating ? floating_ : static_cast<double>(integer_); }
  Lack lack() const noexcept { return static_cast<Lack>(integer_ & 0xFF); }
  int lack_name() const noexcept { return static_cast<int>(integer_ >> 8); }
  const Text& text() const noexcept { return static_cast<const TextCell&>(*cell_).text; }
  bool markup() const noexcept { return kind_ == Kind::string && static_cast<const TextCell&>(*cell_).markup; }
  ListCell& list() const noexcept;
  DictCell& dict() const noexcept;
  template <typename T>
  T& as() const noexcept {
    return static_cast<T&>(*cell_);
  }
  const std::shared_ptr<Cell>& cell() const noexcept { return cell_; }

 private:
  Kind kind_ = Kind::none;
  union {
    std::int64_t integer_ = 0;
    double floating_;
  };
  std::shared_ptr<Cell> cell_;
};

// Python's kinds of sequence that a template can tell apart. A generator is read once.
enum class Flavour : std::uint8_t { list, tuple, range, keys, values, items, generator };

struct ListCell final : Cell {
  ~ListCell() override {
    if (meter) meter->live -= charged;
  }
  std::vector<Value> items;
  Flavour flavour = Flavour::list;
  int depth = 1;
  std::array<std::int64_t, 3> range{};   // start, stop, step of a range
  std::size_t cursor = 0;                // of a generator
  std::shared_ptr<const Fault> failure;  // what a generator throws after its last item
  bool group = false;                    // of groupby: the pair has the names grouper and list
  std::shared_ptr<Meter> meter;
  std::size_t charged = 0;
};

struct DictCell final : Cell {
  using Items = std::vector<std::pair<Value, Value>>;
  ~DictCell() override {
    if (meter) meter->live -= charged;
  }
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

  Items items;
  int depth = 1;
  Value source;  // of tool call arguments: their JSON text, which stands for them where a string is wanted
  std::shared_ptr<Meter> meter;
  std::size_t charged = 0;

 private:
  mutable std::unordered_map<std::string_view, std::size_t> index_;  // of string keys, built for larger dicts
};

struct NamespaceCell final : Cell {
  DictCell::Items items;
  Value* find(std::string_view key);
};

// `loop` inside a for; the machine moves index0.
struct LoopCell final : Cell {
  std::shared_ptr<ListCell> source;
  std::int64_t index0 = -1;
  std::int64_t depth0 = 0;
  int function = -1;          // of a recursive loop
  std::weak_ptr<Cell> scope;  // that it was made in; none at the top
  bool at_top = true;
  bool has_last = false;
  Value last;  // what changed() saw
};

struct MacroCell final : Cell {
  int function = -1;
  std::string_view name;  // of the template's; empty: the body of a call block
  std::weak_ptr<Cell> scope;
  bool at_top = true;
};

struct FunctionCell final : Cell {
  explicit FunctionCell(int i) : id(i) {}
  const int id;
};

struct MethodCell final : Cell {
  MethodCell(Value receiver, int method, int d) : self(std::move(receiver)), id(method), depth(d) {}
  const Value self;
  const int id;
  const int depth;
};

struct CyclerCell final : Cell {
  Value items;  // a tuple
  std::size_t position = 0;
};

struct JoinerCell final : Cell {
  Value separator;
  bool used = false;
};

inline ListCell& Value::list() const noexcept { return static_cast<ListCell&>(*cell_); }
inline DictCell& Value::dict() const noexcept { return static_cast<DictCell&>(*cell_); }

int depth_of(const Value& v) noexcept;                // 0 for scalars and strings
std::string_view type_name(const Value& v) noexcept;  // as Python names it
bool truth(const Value& v) noexcept;
bool hashable(const Value& v) noexcept;

// Python's == and <. Both count the work on `steps`; less refuses values without an order.
bool equal(const Value& a, const Value& b, std::int64_t& steps);
bool less(const Value& a, const Value& b, std::int64_t& steps);
bool same_object(const Value& a, const Value& b) noexcept;

}  // namespace dsv31::inline v1::text::jinja
