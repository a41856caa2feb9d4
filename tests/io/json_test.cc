#include "lib/io/json.h"

#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

TEST_CASE("JSON values keep their kind, exactness and order") {
  const Json j = parse_json(
      R"( {"b":true,"a":[1,-2,9223372036854775807,18446744073709551615,1.5,1e-3,null],"s":"x\u20ac\ud83d\ude00","o":{}} )", "t");
  REQUIRE(j.is_object());
  CHECK(j.as_object()[0].first == "b");
  CHECK(j.as_object()[1].first == "a");
  CHECK(j.get_bool("b"));
  const Json::Array& a = j.get_array("a");
  REQUIRE(a.size() == 7);
  CHECK(a[0].as_int() == 1);
  CHECK(a[1].as_int() == -2);
  CHECK(a[2].as_int() == INT64_MAX);
  CHECK(a[3].is_uint());
  CHECK(a[3].as_uint() == UINT64_MAX);
  CHECK(a[4].as_double() == 1.5);
  CHECK(a[5].as_double() == 0.001);
  CHECK(a[6].is_null());
  CHECK(j.get_string("s") == "x\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(j.get_object("o").as_object().empty());
  CHECK(Json(std::uint64_t{7}).is_int());
  CHECK(parse_json("5e-324", "t").as_double() == 5e-324);
  CHECK(parse_json("1e-400", "t").as_double() == 0.0);
}

TEST_CASE("JSON getters name the key, what was got and what was expected") {
  const Json j = parse_json(R"({"n":3,"f":0.5,"s":"CANARY-5d1","z":null,"big":18446744073709551615})", "t");
  CHECK(j.get_int("n", 3, 3) == 3);
  CHECK(j.get_float("n") == 3.0);
  CHECK(j.int_or("z", 9) == 9);
  CHECK(j.int_or("absent", 9) == 9);
  CHECK(j.float_or("f", 2) == 0.5);
  CHECK(j.bool_or("absent", true));
  CHECK(j.string_or("absent", "d") == "d");
  expect_error(Code::format, {"\"n\"", "got 3", "[4, 9]"}, [&] { j.get_int("n", 4, 9); });
  expect_error(Code::format, {"\"n\"", "got 3", "[0, 2]"}, [&] { j.int_or("n", 1, 0, 2); });
  expect_error(Code::format, {"\"f\"", "got 0.5", "integer"}, [&] { j.get_int("f"); });
  expect_error(Code::format, {"\"s\"", "got string", "integer"}, [&] { j.get_int("s"); });
  expect_error(Code::format, {"\"s\"", "got string", "boolean"}, [&] { j.bool_or("s", true); });
  expect_error(Code::format, {"\"z\"", "got nothing"}, [&] { j.get_string("z"); });
  expect_error(Code::format, {"\"big\"", "got 18446744073709551615"}, [&] { j.get_int("big"); });
  expect_error(Code::format, {"\"f\"", "[1, 2]"}, [&] { j.get_float("f", 1, 2); });
  expect_error(Code::format, {"\"n\"", "array"}, [&] { j.get_array("n"); });
  expect_error(Code::format, {"\"n\"", "object"}, [&] { j.get_object("n"); });
  CHECK(Json(5).find("n") == nullptr);
}

TEST_CASE("broken JSON is a format error with its byte offset") {
  CHECK(parse_json("[1,2]", "t").as_array().size() == 2);
  expect_error(Code::format, {"[t]", "byte 4"}, [] { parse_json("[1,2", "t"); });
  expect_error(Code::format, {"byte 5"}, [] { parse_json("[1,2]x", "t"); });
  expect_error(Code::format, {"byte 6"}, [] { parse_json("[1,2] {}", "t"); });
  expect_error(Code::format, {"byte 0"}, [] { parse_json("", "t"); });
  expect_error(Code::format, {"byte"}, [] { parse_json("[1,]", "t"); });
  expect_error(Code::format, {"byte"}, [] { parse_json("[01]", "t"); });
  expect_error(Code::format, {"byte"}, [] { parse_json("[NaN]", "t"); });
  expect_error(Code::format, {"byte"}, [] { parse_json("[1e999]", "t"); });
  expect_error(Code::format, {"byte"}, [] { parse_json("/*c*/1", "t"); });
  expect_error(Code::format, {"byte"}, [] { parse_json("[\"CANARY-5d1\",]", "t"); });
  expect_error(Code::format, {"byte 5", "zero byte"}, [] { parse_json(std::string_view("[1,2]\0", 6), "t"); });
}

TEST_CASE("UTF-8 in JSON strings is checked") {
  CHECK(parse_json("\"\xC3\xA9\"", "t").as_string() == "\xC3\xA9");
  for (const char* bad : {"\"\xC3\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xFF\"", "\"\\ud800\"", "\"\\udc00x\"", "\"a\nb\""})
    expect_error(Code::format, {"[t]", "byte"}, [&] { parse_json(bad, "t"); });
}

TEST_CASE("duplicate keys are refused in small and in large objects") {
  CHECK(parse_json(R"({"a":1,"b":2})", "t").get_int("b") == 2);
  expect_error(Code::format, {"\"a\"", "twice", "byte"}, [] { parse_json(R"({"a":1,"a":2})", "t"); });
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many.append("\"k").append(std::to_string(i)).append("\":0,");
  CHECK(parse_json(many + "\"k100\":0}", "t").as_object().size() == 101);
  expect_error(Code::format, {"\"k50\"", "twice"}, [&] { parse_json(many + "\"k50\":0}", "t"); });
  JsonLimits lenient;
  lenient.allow_duplicate_keys = true;
  CHECK(parse_json(R"({"a":1,"a":2})", "t", lenient).get_int("a") == 2);
}

TEST_CASE("depth, bytes and values of JSON are limited exactly") {
  const auto nested = [](int n) {
    return std::string(static_cast<std::size_t>(n), '[') + std::string(static_cast<std::size_t>(n), ']');
  };
  CHECK(parse_json(nested(64), "t").is_array());
  expect_error(Code::limit, {"[t]", "64", "byte 65"}, [&] { parse_json(nested(65), "t"); });
  expect_error(Code::limit, {"nesting"}, [] { parse_json(std::string(100'000, '['), "t"); });
  expect_error(Code::limit, {"nesting"}, [] {
    std::string s;
    for (int i = 0; i < 100'000; ++i) s += "{\"a\":";
    parse_json(s, "t");
  });
  JsonLimits limits;
  limits.max_bytes = 5;
  limits.max_values = 3;
  CHECK(parse_json("[1,2]", "t", limits).as_array().size() == 2);
  expect_error(Code::limit, {"length", "got 6"}, [&] { parse_json("[1,23]", "t", limits); });
  limits.max_bytes = 100;
  expect_error(Code::limit, {"3 values"}, [&] { parse_json("[1,2,3]", "t", limits); });
}
