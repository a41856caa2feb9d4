// Windows with sinks: which keys a row sees, and how many partials and blocks that takes.
#include "backends/cpu/attention_tiles.h"
#include "tests/backends/attention/rig.h"

namespace {

using namespace attention_rig;

TEST_CASE("a row sees the keys that its window and the layer's both show, once each and ascending") {
  for (const std::int64_t layer_window : {0, 1, 7, 40})
    for (const AttentionWindow& w : {AttentionWindow{},
                                     {.window = 1},
                                     {.window = 1, .sinks = 1},
                                     {.window = 7, .sinks = 3},
                                     {.window = 40, .sinks = 2},
                                     {.window = 5, .sinks = 50},
                                     {.window = 1000, .sinks = 9}})
      for (std::int64_t p = 0; p < 100; ++p) {
        std::vector<std::int64_t> expected, got;
        for (std::int64_t t = 0; t <= p; ++t)
          if (w.sees(p, t) && (layer_window == 0 || t > p - layer_window)) expected.push_back(t);
        const VisibleKeys keys = visible_keys(w, layer_window, p);
        for (std::int64_t n = 0; n < keys.count(); ++n) got.push_back(keys.at(n));
        INFO("window " << w.window << " sinks " << w.sinks << " layer " << layer_window << " position " << p);
        REQUIRE(got == expected);
      }
}

TEST_CASE("nothing is hidden before hides_from, and something at it") {
  constexpr AttentionWindow w{.window = 20, .sinks = 5};
  static_assert(w.hides_from() == 25 && AttentionWindow{}.hides_from() == INT64_MAX);
  CHECK(visible_keys(w, 0, 24).count() == 25);
  CHECK(visible_keys(w, 0, 25).count() == 25);
  CHECK(!w.sees(25, 5));
}

cpu::TileRunner runner(std::int64_t layer_window) {
  cpu::AttentionShape shape;
  shape.k_width = shape.v_width = 16;
  shape.window = layer_window;
  shape.max_chunks = 4096;
  return {shape, cpu::attention_kernels(cpu::Isa::generic)};
}

TEST_CASE("the partials of a row are bounded by window and sinks, however long its past is") {
  for (const AttentionWindow& w : {AttentionWindow{.window = 1}, {.window = 64, .sinks = 4}, {.window = 1000, .sinks = 300}})
    for (const std::int64_t p : {5000, 100000, 1000000}) {
      const std::int64_t most = (w.sinks + kChunk - 1) / kChunk + (w.window + kChunk - 2) / kChunk + 1;
      const cpu::Partials row = runner(0).partials(w, p, p), many = runner(0).partials(w, p, p + 511);
      CHECK(row.count <= most);
      CHECK(many.count <= most + 2);
      CHECK(row.sinks == (w.sinks + kChunk - 1) / kChunk);
      CHECK(runner(0).partials({}, p, p).count == p / kChunk + 1);
    }
  // A layer's own window hides the sinks, and they take no partial.
  CHECK(runner(128).partials({.window = 64, .sinks = 4}, 5000, 5100).sinks == 0);
  CHECK(runner(128).partials({.window = 500, .sinks = 4}, 5000, 5000).count == runner(128).partials({}, 5000, 5000).count);
}

TEST_CASE("the items of a decoding step over a long past are those of the window") {
  const AttentionWindow w{.window = 512, .sinks = 4};
  SequenceRows s{.rows = 1, .position = 100000, .window = w};
  const auto items = [&] {
    const cpu::TileRunner r = runner(0);
    const cpu::Selection all{{&s, 1}};
    const cpu::Division d = r.divide(all, std::size_t{4} << 20);
    std::int64_t n = 0;
    for (std::int64_t wave = 0; wave < d.waves; ++wave) {
      cpu::TileItems list(r, all, d, wave);
      cpu::TileItems::Item item;
      for (std::int64_t i = 0; list.find(i, item); ++i) ++n;
    }
    return n;
  };
  CHECK(items() == 4);  // one of the sinks, three chunks that 512 keys touch
  s.window = {};
  CHECK(items() == 391);
}

}  // namespace
