// Functions that every template sees: those of jinja2 and the two that Hugging Face adds.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text::jinja {
namespace {

constexpr std::uint64_t kMaxRange = 100'000;  // that of jinja2's sandbox

Value make_range(Context& c, Arguments& a) {
  std::int64_t start = 0, stop = a.need_whole(0, ""), step = 1;
  if (a.size() > 1) {
    start = stop;
    stop = a.need_whole(1, "");
    step = a.whole(2, "", 1);
  }
  a.done();
  if (step == 0) refuse("got a range with step 0, expected another step");
  const auto low = static_cast<std::uint64_t>(std::min(start, stop)), high = static_cast<std::uint64_t>(std::max(start, stop));
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
  const std::uint64_t count = (step > 0 ? start < stop : start > stop) ? (high - low - 1) / stride + 1 : 0;
  if (count > kMaxRange) refuse(fmt::format("got a range of {} items, expected at most {}", count, kMaxRange), Code::limit);
  std::vector<Value> items;
  for (std::uint64_t k = 0; k < count; ++k) items.push_back(Value::integer(start + static_cast<std::int64_t>(k) * step));
  Value v = c.budget.list(std::move(items), Flavour::range);
  v.list().range = {start, stop, step};
  return v;
}

// dict(mapping or pairs, a=1): also what namespace() takes.
DictCell::Items make_items(Context& c, Arguments& a) {
  DictCell::Items items;
  if (a.size() > 0) {
    const Value& from = a.need(0, "");
    if (from.is(Kind::undefined)) use_undefined(c, from);
    if (from.is(Kind::dict)) {
      items = from.dict().items;
      c.budget.spend(static_cast<std::int64_t>(items.size()));
    } else {
      for (const Value& pair : items_of(c, from, "dict")) {
        const std::vector<Value> two = items_of(c, pair, "dict");
        if (two.size() != 2) refuse(fmt::format("got {} values in dict, expected pairs", two.size()));
        c.budget.put(items, two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : a.named()) c.budget.put(items, c.budget.text(name), value);
  if (a.size() > 1) refuse("got several mappings in dict, expected at most one");
  return items;
}

Value make_dict(Context& c, Arguments& a) { return c.budget.dict(make_items(c, a)); }

Value make_namespace(Context& c, Arguments& a) {
  auto cell = std::make_shared<NamespaceCell>();
  for (auto& [key, value] : make_items(c, a)) {
    if (!key.is(Kind::string)) refuse("got a key that is no string in namespace, expected strings");
    cell->items.emplace_back(key, value);
  }
  c.budget.spend(16);
  c.namespaces.push_back(cell);
  return {Kind::name_space, cell};
}

Value make_cycler(Context& c, Arguments& a) {
  if (a.size() == 0) refuse("got nothing to cycle through, expected values");
  a.get(a.size() - 1, "");
  a.done();
  auto cell = std::make_shared<CyclerCell>();
  cell->items = c.budget.list({a.positional().begin(), a.positional().end()}, Flavour::tuple);
  c.budget.check_depth(depth_of(cell->items) + 1);
  return {Kind::cycler, cell};
}

Value make_joiner(Context& c, Arguments& a) {
  auto cell = std::make_shared<JoinerCell>();
  const Value* separator = a.get(0, "sep");
  a.done();
  cell->separator = separator ? *separator : c.budget.text(", ");
  c.budget.check_depth(depth_of(cell->separator) + 1);
  return {Kind::joiner, cell};
}

// The text of the error holds what the template says and none of the data that it says it about.
Value raise_exception(Context& c, Arguments& a) {
  const Text message = str(c.budget, a.need(0, "message"));
  a.done();
  std::string shown;
  std::size_t end = 0;
  for (const PromptText::Range& range : message.trusted_ranges()) {
    if (range.begin > end) shown += "...";
    shown += message.view().substr(range.begin, range.end - range.begin);
    end = range.end;
    if (shown.size() > 300) break;
  }
  refuse(fmt::format("got messages that the template refuses ({}), expected those that it takes", shown.substr(0, 300)));
}

Value strftime_now(Context& c, Arguments& a) {
  const Value& format = need_string(a.need(0, "format"), "strftime_now");
  a.done();
  c.budget.room(format.text().size(), 16);
  return c.budget.text(strftime(format.text().view(), c.now));
}

struct Entry {
  std::string_view name;
  Value (*function)(Context&, Arguments&);
};

constexpr Entry kGlobals[] = {
    {"range", make_range},          {"dict", make_dict},     {"namespace", make_namespace},
    {"cycler", make_cycler},        {"joiner", make_joiner}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

struct Date {
  std::int64_t year;
  int month, day, hour, minute, second, weekday, yearday;  // month, day from 1; weekday from Sunday 0; yearday from 0
};

// Days since 1970 to a date of the proleptic Gregorian calendar, by eras of 400 years that begin in March.
Date date_of(std::int64_t seconds) {
  seconds = std::clamp<std::int64_t>(seconds, -62'135'596'800, 253'402'300'799);  // years 1 to 9999
  const std::int64_t days = (seconds >= 0 ? seconds : seconds - 86'399) / 86'400;
  const auto rest = static_cast<int>(seconds - days * 86'400);
  const std::int64_t z = days + 719'468;
  const std::int64_t era = (z >= 0 ? z : z - 146'096) / 146'097;
  const std::int64_t doe = z - era * 146'097;
  const std::int64_t yoe = (doe - doe / 1460 + doe / 36'524 - doe / 146'096) / 365;
  const std::int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const std::int64_t mp = (5 * doy + 2) / 153;
  Date d{};
  d.day = static_cast<int>(doy - (153 * mp + 2) / 5 + 1);
  d.month = static_cast<int>(mp < 10 ? mp + 3 : mp - 9);
  d.year = yoe + era * 400 + (d.month <= 2 ? 1 : 0);
  d.hour = rest / 3600;
  d.minute = rest / 60 % 60;
  d.second = rest % 60;
  d.weekday = static_cast<int>(((days + 4) % 7 + 7) % 7);
  static constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const bool leap = (d.year % 4 == 0 && d.year % 100 != 0) || d.year % 400 == 0;
  d.yearday = kBefore[static_cast<std::size_t>(d.month - 1)] + d.day - 1 + (leap && d.month > 2 ? 1 : 0);
  return d;
}

}  // namespace

std::string strftime(std::string_view format, std::int64_t seconds) {
  static constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                            "Thursday", "Friday", "Saturday"};
  static constexpr std::array<std::string_view, 12> kMonths = {
      "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"};
  const Date d = date_of(seconds);
  const int hour12 = d.hour % 12 == 0 ? 12 : d.hour % 12;
  const std::string_view day = kDays[static_cast<std::size_t>(d.weekday)], month = kMonths[static_cast<std::size_t>(d.month - 1)];
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    char what = format[++i];
    const bool bare = what == '-' && i + 1 < format.size();  // no padding
    if (bare) what = format[++i];
    const auto two = [&](int n) { return bare ? fmt::format("{}", n) : fmt::format("{:02}", n); };
    switch (what) {
      case 'Y':
        out += fmt::format("{}", d.year);
        break;
      case 'C':
        out += fmt::format("{:02}", d.year / 100);
        break;
      case 'y':
        out += two(static_cast<int>(d.year % 100));
        break;
      case 'm':
        out += two(d.month);
        break;
      case 'd':
        out += two(d.day);
        break;
      case 'e':
        out += bare ? fmt::format("{}", d.day) : fmt::format("{:2}", d.day);
        break;
      case 'H':
        out += two(d.hour);
        break;
      case 'I':
        out += two(hour12);
        break;
      case 'M':
        out += two(d.minute);
        break;
      case 'S':
        out += two(d.second);
        break;
      case 'j':
        out += bare ? fmt::format("{}", d.yearday + 1) : fmt::format("{:03}", d.yearday + 1);
        break;
      case 'B':
        out += month;
        break;
      case 'b':
      case 'h':
        out += month.substr(0, 3);
        break;
      case 'A':
        out += day;
        break;
      case 'a':
        out += day.substr(0, 3);
        break;
      case 'p':
        out += d.hour < 12 ? "AM" : "PM";
        break;
      case 'w':
        out += fmt::format("{}", d.weekday);
        break;
      case 'u':
        out += fmt::format("{}", d.weekday == 0 ? 7 : d.weekday);
        break;
      case 'U':
        out += two((d.yearday + 7 - d.weekday) / 7);
        break;
      case 'W':
        out += two((d.yearday + 7 - (d.weekday + 6) % 7) / 7);
        break;
      case 'f':
        out += "000000";
        break;
      case 's':
        out += fmt::format("{}", seconds);
        break;
      case 'F':
        out += fmt::format("{}-{:02}-{:02}", d.year, d.month, d.day);
        break;
      case 'T':
      case 'X':
        out += fmt::format("{:02}:{:02}:{:02}", d.hour, d.minute, d.second);
        break;
      case 'R':
        out += fmt::format("{:02}:{:02}", d.hour, d.minute);
        break;
      case 'D':
      case 'x':
        out += fmt::format("{:02}/{:02}/{:02}", d.month, d.day, d.year % 100);
        break;
      case 'c':
        out += fmt::format("{} {} {:2} {:02}:{:02}:{:02} {}", day.substr(0, 3), month.substr(0, 3), d.day, d.hour, d.minute,
                           d.second, d.year);
        break;
      case 'r':
        out += fmt::format("{:02}:{:02}:{:02} {}", hour12, d.minute, d.second, d.hour < 12 ? "AM" : "PM");
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'z':
      case 'Z':
        break;  // Python's now() has no zone
      case '%':
        out += '%';
        break;
      default:
        out += '%';
        out += what;
        break;
    }
  }
  return out;
}

int find_global(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kGlobals); ++i) {
    if (kGlobals[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::string_view global_name(int id) noexcept { return kGlobals[id].name; }
Value call_global(Context& context, int id, Arguments& arguments) { return kGlobals[id].function(context, arguments); }

}  // namespace dsv31::inline v1::text::jinja
