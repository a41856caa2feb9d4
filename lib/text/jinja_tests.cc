// What stands after `is`.
#include <fmt/format.h>

#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text::jinja {
namespace {

bool no_arguments(Arguments& a, bool result) {
  a.done();
  return result;
}

// str(value).islower() or isupper().
bool cased(Context& c, const Value& v, Arguments& a, std::string_view method) {
  a.done();
  const Value text = c.budget.text(str(c.budget, v));
  bool unsafe = false;
  const int id = find_method(text, method, unsafe);
  Arguments none(method, {}, {});
  return truth(call_method(c, id, text, none));
}

Value remainder(Context& c, const Value& v, const Value& by) { return arithmetic(c, Arithmetic::modulo, v, by); }

bool compare(Context& c, const Value& v, Arguments& a, char how) {
  const Value& other = a.need(0, "");
  a.done();
  if (how == '=') return c.budget.equal(v, other);
  if (how == '!') return !c.budget.equal(v, other);
  for (const Value* x : {&v, &other}) {
    if (x->is(Kind::undefined)) use_undefined(c, *x);
  }
  switch (how) {
    case '<':
      return c.budget.less(v, other);
    case '>':
      return c.budget.less(other, v);
    case 'l':
      return c.budget.less(v, other) || c.budget.equal(v, other);
    default:
      return c.budget.less(other, v) || c.budget.equal(v, other);
  }
}

bool sequence(const Value& v) {
  if (v.is(Kind::string) || v.is(Kind::dict) || v.is(Kind::undefined)) return true;
  return v.is(Kind::list) &&
         (v.list().flavour == Flavour::list || v.list().flavour == Flavour::tuple || v.list().flavour == Flavour::range);
}

bool iterable(const Value& v) {
  return v.is(Kind::undefined) || v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::loop);
}

bool callable(const Value& v) {
  // jinja2's Undefined has a __call__, which throws.
  return v.kind() == Kind::undefined || v.kind() == Kind::macro || v.kind() == Kind::function || v.kind() == Kind::method ||
         v.kind() == Kind::joiner || v.kind() == Kind::loop;
}

struct Entry {
  std::string_view name;
  Test test;
};

constexpr Entry kTests[] = {
    {"defined", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, !v.is(Kind::undefined)); }},
    {"undefined", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::undefined)); }},
    {"none", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::none)); }},
    {"boolean", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::boolean)); }},
    {"true", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::boolean) && v.as_int()); }},
    {"false", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::boolean) && !v.as_int()); }},
    {"integer", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::integer)); }},
    {"float", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::floating)); }},
    {"number", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is_number()); }},
    {"string", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::string)); }},
    {"mapping", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.is(Kind::dict)); }},
    {"sequence", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, sequence(v)); }},
    {"iterable", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, iterable(v)); }},
    {"callable", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, callable(v)); }},
    {"escaped", [](Context&, const Value& v, Arguments& a) { return no_arguments(a, v.markup()); }},
    {"lower", [](Context& c, const Value& v, Arguments& a) { return cased(c, v, a, "islower"); }},
    {"upper", [](Context& c, const Value& v, Arguments& a) { return cased(c, v, a, "isupper"); }},
    {"odd", [](Context& c, const Value& v,
               Arguments& a) { return no_arguments(a, c.budget.equal(remainder(c, v, Value::integer(2)), Value::integer(1))); }},
    {"even", [](Context& c, const Value& v,
                Arguments& a) { return no_arguments(a, c.budget.equal(remainder(c, v, Value::integer(2)), Value::integer(0))); }},
    {"divisibleby",
     [](Context& c, const Value& v, Arguments& a) {
       const Value& by = a.need(0, "num");
       return no_arguments(a, c.budget.equal(remainder(c, v, by), Value::integer(0)));
     }},
    {"sameas",
     [](Context&, const Value& v, Arguments& a) {
       const Value& other = a.need(0, "other");
       return no_arguments(a, same_object(v, other));
     }},
    {"in",
     [](Context& c, const Value& v, Arguments& a) {
       const Value& seq = a.need(0, "seq");
       a.done();
       return contains(c, seq, v);
     }},
    {"filter", [](Context&, const Value& v,
                  Arguments& a) { return no_arguments(a, v.is(Kind::string) && find_filter(v.text().view()) >= 0); }},
    {"test", [](Context&, const Value& v,
                Arguments& a) { return no_arguments(a, v.is(Kind::string) && find_test(v.text().view()) >= 0); }},
    {"==", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '='); }},
    {"eq", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '='); }},
    {"equalto", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '='); }},
    {"!=", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '!'); }},
    {"ne", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '!'); }},
    {">", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '>'); }},
    {"gt", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '>'); }},
    {"greaterthan", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '>'); }},
    {">=", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, 'g'); }},
    {"ge", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, 'g'); }},
    {"<", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '<'); }},
    {"lt", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '<'); }},
    {"lessthan", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, '<'); }},
    {"<=", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, 'l'); }},
    {"le", [](Context& c, const Value& v, Arguments& a) { return compare(c, v, a, 'l'); }},
};

}  // namespace

int find_test(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kTests); ++i) {
    if (kTests[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

bool call_test(Context& context, int id, const Value& input, Arguments& arguments) {
  return kTests[id].test(context, input, arguments);
}

}  // namespace dsv31::inline v1::text::jinja
