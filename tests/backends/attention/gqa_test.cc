// Rope, cache write and attention together: against plain double precision, and bit for bit against themselves.
#include <algorithm>
#include <cmath>

#include "tests/backends/attention/rig.h"

namespace {

using namespace attention_rig;

struct Shape {
  std::int64_t heads = 4, kv_heads = 2, head_dim = 32, rope_dim = 32;
  Pairing pairing = Pairing::half_split;
  std::int64_t window = 0;
  float softcap = 0;
  bool norms = false;
  DType type = DType::f16;
  float q_scale = 2;
  AttentionWindow attend{};  // of the inputs
};

struct Inputs {
  std::int64_t n = 0;
  std::vector<float> q, k, v;
  AttentionWindow attend{};
};

Inputs inputs(const Shape& s, std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  return {n, random.floats(n * s.heads * s.head_dim, s.q_scale), random.floats(n * s.kv_heads * s.head_dim, 2),
          random.floats(n * s.kv_heads * s.head_dim, 1), s.attend};
}

struct Result {
  std::vector<std::vector<float>> q, out;  // by sequence, (n, heads * head_dim)
  std::unique_ptr<Cache> cache;
  std::int64_t blocks_each = 0;
  std::size_t sequences = 0;

  std::int32_t block(std::size_t s, std::int64_t position) const {
    return StepTables::block_id(s, position / kBlock, blocks_each, sequences);
  }
};

constexpr ValueId kAngles = 0, kQ = 1, kK = 2, kV = 3, kOut = 4;
constexpr float kEps = 1e-6f;

std::vector<float> inv_freq(const Shape& s) {
  std::vector<float> f;
  for (std::int64_t i = 0; i < s.rope_dim / 2; ++i)
    f.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(s.rope_dim)));
  return f;
}

std::vector<float> norm_weight(const Shape& s, std::uint64_t seed) {
  std::vector<float> w = Random(seed).floats(s.head_dim, 0.25f);
  for (float& x : w) x += 1;
  return w;
}

// stale: what all blocks hold before the first step.
Result run_all(const Shape& s, cpu::Isa isa, const std::vector<Inputs>& in, const Schedule& schedule, int workers,
               std::uint8_t stale = 0, bool random_past = false) {
  Result result;
  std::int64_t longest = 0;
  std::vector<AttentionWindow> windows;
  for (const Inputs& i : in) {
    windows.push_back(i.attend);
    longest = std::max(longest, i.n);
    result.q.emplace_back(i.q.size());
    result.out.emplace_back(i.q.size());
  }
  result.sequences = in.size();
  result.blocks_each = (longest + kBlock - 1) / kBlock;
  const CacheDesc desc{.num_key_value_heads = s.kv_heads, .head_dim = s.head_dim, .window = s.window};
  const int blocks = static_cast<int>(result.blocks_each) * static_cast<int>(in.size());
  result.cache = std::make_unique<Cache>(desc, s.type, blocks);
  for (int b = 0; b < blocks; ++b) result.cache->fill(b, stale);
  if (random_past) result.cache->randomise(5);

  Graph graph;
  graph.caches = {desc};
  graph.context_length = 2048;
  const std::vector<float> q_norm = norm_weight(s, 91), k_norm = norm_weight(s, 92);
  const float* vectors[] = {q_norm.data(), k_norm.data()};
  const PrepareContext context = prepare_context(graph, vectors, s.type);
  const Norm norms[2] = {{.weight = s.norms ? 0 : kNone, .eps = kEps}, {.weight = s.norms ? 1 : kNone, .eps = kEps}};
  const cpu::KernelTable none;
  const auto angles = cpu::prepare_angles({.inv_freq = inv_freq(s), .out = kAngles}, context, none, isa);
  const auto rope = cpu::prepare_rope_cache({.num_attention_heads = s.heads,
                                             .num_key_value_heads = s.kv_heads,
                                             .head_dim = s.head_dim,
                                             .rope_dim = s.rope_dim,
                                             .pairing = s.pairing,
                                             .q_norm = norms[0],
                                             .k_norm = norms[1],
                                             .angles = kAngles,
                                             .q = kQ,
                                             .k = kK,
                                             .v = kV},
                                            context, none, isa);
  const auto attention = cpu::prepare_attention({.num_attention_heads = s.heads,
                                                 .num_key_value_heads = s.kv_heads,
                                                 .head_dim = s.head_dim,
                                                 .scale = 1 / std::sqrt(static_cast<float>(s.head_dim)),
                                                 .window = s.window,
                                                 .softcap = s.softcap,
                                                 .q = kQ,
                                                 .out = kOut},
                                                context, none, isa);
  for (const std::vector<Piece>& pieces : schedule) {
    const StepTables tables(pieces, result.blocks_each, in.size(), s.window, windows);
    const Step step = tables.step(result.cache->view());
    const std::int64_t n = step.rows();
    std::vector<Value> values;
    values.emplace_back(n, s.rope_dim);
    values.emplace_back(n, s.heads * s.head_dim);
    values.emplace_back(n, s.kv_heads * s.head_dim);
    values.emplace_back(n, s.kv_heads * s.head_dim);
    values.emplace_back(n, s.heads * s.head_dim);
    std::int64_t r = 0;
    for (const Piece& p : pieces)
      for (std::int64_t i = 0; i < p.rows; ++i, ++r)
        for (const auto& [id, from] : {std::pair{kQ, &in[p.sequence].q}, {kK, &in[p.sequence].k}, {kV, &in[p.sequence].v}}) {
          Value& to = values[static_cast<std::size_t>(id)];
          std::copy_n(from->data() + (p.first + i) * to.width(), to.width(), to.row(r));
        }
    run(*angles, step, values, workers);
    run(*rope, step, values, workers);
    run(*attention, step, values, workers);
    r = 0;
    for (const Piece& p : pieces)
      for (std::int64_t i = 0; i < p.rows; ++i, ++r) {
        const std::int64_t width = s.heads * s.head_dim;
        std::copy_n(values[kQ].row(r), width, result.q[p.sequence].data() + (p.first + i) * width);
        std::copy_n(values[kOut].row(r), width, result.out[p.sequence].data() + (p.first + i) * width);
      }
  }
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_cache(const Result& a, std::size_t sa, const Result& b, std::size_t sb, std::int64_t n) {
  for (std::int64_t p = 0; p < n; p += kBlock)
    if (!std::ranges::equal(a.cache->bytes(a.block(sa, p)), b.cache->bytes(b.block(sb, p)))) return false;
  return true;
}

// The largest error of head h at position p, in units of the bound that rounding allows: <= 1 is right.
double excess(const Shape& s, const Result& result, std::int64_t p, std::int64_t h) {
  const double eps = 0x1p-24, scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  const std::int64_t g = h / (s.heads / s.kv_heads), first = s.window > 0 ? std::max<std::int64_t>(0, p - s.window + 1) : 0;
  const float* q = result.q[0].data() + (p * s.heads + h) * s.head_dim;
  std::vector<double> score;
  double top = -INFINITY, score_error = 0;
  for (std::int64_t t = first; t <= p; ++t) {
    if (!s.attend.sees(p, t)) {
      score.push_back(-INFINITY);
      continue;
    }
    double dot = 0, magnitude = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      const double product = double{q[d]} * result.cache->key(result.block(0, t), g, t % kBlock, d);
      dot += product;
      magnitude += std::abs(product);
    }
    score_error = std::max(score_error, magnitude * scale * eps * static_cast<double>(s.head_dim + 8));
    dot *= scale;
    if (s.softcap > 0) dot = s.softcap * std::tanh(dot / s.softcap);
    score.push_back(dot);
    top = std::max(top, dot);
  }
  double sum = 0;
  for (double& x : score) sum += x = std::exp(x - top);
  const auto n = static_cast<double>(score.size());
  double worst = 0;
  for (std::int64_t d = 0; d < s.head_dim; ++d) {
    double o = 0, magnitude = 0;
    for (std::int64_t t = first; t <= p; ++t) {
      if (!s.attend.sees(p, t)) continue;
      const double x =
          score[static_cast<std::size_t>(t - first)] / sum * result.cache->kv_value(result.block(0, t), g, t % kBlock, d);
      o += x;
      magnitude += std::abs(x);
    }
    const double bound = magnitude * (2 * score_error + (n + 32) * eps) + 1e-30;
    const double error = std::abs(o - result.out[0][static_cast<std::size_t>((p * s.heads + h) * s.head_dim + d)]);
    worst = std::max(worst, error <= bound ? error / bound : INFINITY);  // a NaN is infinitely wrong
  }
  return worst;
}

const Shape kShapes[] = {
    {},
    {.heads = 7, .kv_heads = 1, .head_dim = 64, .rope_dim = 64, .norms = true},
    {.heads = 3, .kv_heads = 3, .head_dim = 16, .rope_dim = 8, .pairing = Pairing::interleaved, .type = DType::f32},
    {.heads = 4, .kv_heads = 2, .head_dim = 40, .rope_dim = 40, .norms = true},
    {.heads = 2, .kv_heads = 1, .head_dim = 20, .rope_dim = 10, .type = DType::f32},
    {.window = 100},
    {.window = 1},
    {.window = 256, .softcap = 5, .type = DType::f32, .q_scale = 20},
    {.heads = 60, .kv_heads = 1, .head_dim = 16, .rope_dim = 16, .softcap = 30},
    {.attend = {.window = 100, .sinks = 4}},
    {.heads = 3, .kv_heads = 1, .head_dim = 40, .rope_dim = 40, .attend = {.window = 1, .sinks = 257}},
    {.window = 256, .type = DType::f32, .attend = {.window = 65, .sinks = 130}},
};

TEST_CASE("attention agrees with a softmax in double precision at every border of blocks and chunks") {
  for (const Shape& s : kShapes) {
    const Result result = run_all(s, isas().back(), {inputs(s, 701, 7)}, in_steps(701, 300), 2);
    for (const std::int64_t p :
         {0, 1, 15, 16, 62, 63, 64, 65, 99, 100, 127, 128, 254, 255, 256, 257, 299, 300, 511, 512, 520, 700})
      for (std::int64_t h = 0; h < s.heads; ++h) {
        INFO("position " << p << " head " << h);
        REQUIRE(excess(s, result, p, h) <= 1);
      }
  }
}

TEST_CASE("attention gives the same bits on every instruction set and by any number of workers") {
  for (const Shape& s : kShapes) {
    const std::vector<Inputs> in{inputs(s, 330, 8)};
    const Schedule schedule{{{0, 0, 300}}, {{0, 300, 1}}, {{0, 301, 5}}, {{0, 306, 24}}};
    const Result expected = run_all(s, cpu::Isa::generic, in, schedule, 1);
    for (const cpu::Isa isa : isas())
      for (const int workers : {1, 2, 3}) {
        const Result got = run_all(s, isa, in, schedule, workers);
        REQUIRE(same_bits(got.q[0], expected.q[0]));
        REQUIRE(same_bits(got.out[0], expected.out[0]));
        REQUIRE(same_cache(got, 0, expected, 0, 330));
      }
  }
}

TEST_CASE("a prompt cut into steps gives the bits of one pass, cache included") {
  for (const Shape& s : kShapes)
    for (const cpu::Isa isa : isas()) {
      if (isa == cpu::Isa::generic) continue;
      const std::vector<Inputs> in{inputs(s, 701, 9)};
      const Result expected = run_all(s, isa, in, in_steps(701, 701), 1);
      for (const std::int64_t rows : {1, 7, 64}) {
        const Result got = run_all(s, isa, in, in_steps(701, rows), rows == 1 ? 1 : 2);
        REQUIRE(same_bits(got.out[0], expected.out[0]));
        REQUIRE(same_cache(got, 0, expected, 0, 701));
      }
    }
}

TEST_CASE("a batch of five sequences gives the bits of each sequence alone") {
  for (const Shape& s : kShapes) {
    const cpu::Isa isa = isas().back();
    std::vector<Inputs> in;
    for (const std::int64_t n : {1, 64, 257, 300, 620}) in.push_back(inputs(s, n, static_cast<std::uint64_t>(n)));
    const Schedule together{{{4, 0, 600}, {2, 0, 200}},
                            {{3, 0, 255}, {2, 200, 56}, {1, 0, 63}, {4, 600, 19}},
                            {{0, 0, 1}, {1, 63, 1}, {2, 256, 1}, {3, 255, 45}, {4, 619, 1}}};
    const Result batch = run_all(s, isa, in, together, 2);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Result alone = run_all(s, isa, {in[i]}, in_steps(in[i].n, in[i].n), 1);
      REQUIRE(same_bits(batch.out[i], alone.out[0]));
      REQUIRE(same_cache(batch, i, alone, 0, in[i].n));
    }
  }
}

TEST_CASE("sequences of one step have windows of their own, and each gives the bits that it gives alone") {
  const AttentionWindow windows[] = {
      {}, {.window = 10, .sinks = 2}, {.window = 100}, {.window = 40, .sinks = 130}, {.window = 300, .sinks = 1}};
  for (const Shape& s : {Shape{}, Shape{.window = 100}}) {
    const cpu::Isa isa = isas().back();
    std::vector<Inputs> in;
    for (const std::int64_t n : {300, 301, 302, 303, 620}) in.push_back(inputs(s, n, static_cast<std::uint64_t>(n)));
    Schedule together(4);
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i].attend = windows[i];
      together[0].push_back({i, 0, 200});
      together[1].push_back({i, 200, 99});
      together[2].push_back({i, 299, 1});
      if (in[i].n > 300) together[3].push_back({i, 300, in[i].n - 300});
    }
    const Result batch = run_all(s, isa, in, together, 2);
    for (std::size_t i = 0; i < in.size(); ++i)
      REQUIRE(same_bits(batch.out[i], run_all(s, isa, {in[i]}, in_steps(in[i].n, in[i].n), 1).out[0]));
  }
}

TEST_CASE("what stale slots hold, NaN included, never enters attention") {
  for (const Shape& s : kShapes)
    for (const cpu::Isa isa : isas()) {
      const std::int64_t n = isa == cpu::Isa::generic ? 70 : 270;
      const std::vector<Inputs> in{inputs(s, n, 10)};
      for (const std::int64_t rows : {30, 270}) {
        const Result clean = run_all(s, isa, in, in_steps(n, rows), 1);
        REQUIRE(same_bits(run_all(s, isa, in, in_steps(n, rows), 1, 0xff).out[0], clean.out[0]));
        REQUIRE(same_bits(run_all(s, isa, in, in_steps(n, rows), 1, 0x7b).out[0], clean.out[0]));
      }
    }
}

TEST_CASE("waves over a long past give the bits of a single row's one wave") {
  Schedule single;
  for (std::int64_t p = 1070; p < 1100; ++p) single.push_back({{0, p, 1}});
  for (const AttentionWindow& attend : {AttentionWindow{}, {.window = 500, .sinks = 300}, {.window = 790, .sinks = 295}}) {
    const Shape s{.heads = 32, .kv_heads = 1, .head_dim = 256, .rope_dim = 64, .attend = attend};
    const std::vector<Inputs> in{inputs(s, 1100, 12)};
    const Result waves = run_all(s, isas().back(), in, {{{0, 1070, 30}}}, 2, 0, true);
    REQUIRE(same_bits(waves.out[0], run_all(s, isas().back(), in, single, 1, 0, true).out[0]));
    REQUIRE(excess(s, waves, 1099, 31) <= 1);
  }

  Graph graph;
  graph.caches = {{.num_key_value_heads = 1, .head_dim = 256}};
  graph.context_length = 2048;
  const auto op =
      cpu::prepare_attention({.num_attention_heads = 32, .num_key_value_heads = 1, .head_dim = 256, .q = kQ, .out = kOut},
                             prepare_context(graph, nullptr, DType::f16), {}, isas().back());
  const StepTables thirty({{0, 1070, 30}}, 18, 1, 0), one({{0, 1099, 1}}, 18, 1, 0);
  REQUIRE(op->phases(thirty.step({})) == 4);  // two waves
  REQUIRE(op->phases(one.step({})) == 2);
}

TEST_CASE("a stopped step leaves attention before its first work item") {
  const CacheDesc desc{.num_key_value_heads = 2, .head_dim = 32};
  Graph graph;
  graph.caches = {desc};
  graph.context_length = 2048;
  for (const std::int64_t rows : {1, 300}) {  // split and streamed
    Cache cache(desc, DType::f16, 10);
    const auto op = cpu::prepare_attention({.num_attention_heads = 4, .num_key_value_heads = 2, .head_dim = 32, .q = 0, .out = 1},
                                           prepare_context(graph, nullptr, DType::f16), {}, isas().back());
    const StepTables tables({{0, 600 - rows, rows}}, 10, 1, 0);
    const Step step = tables.step(cache.view());
    std::vector<Value> values;
    for (int i = 0; i < 2; ++i) values.emplace_back(rows, 128);
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(values[0].row(r), 128, 1.0f);
    const auto written = [&] {
      return std::any_of(values[1].data(), values[1].data() + rows * 128, [](float x) { return !std::isnan(x); });
    };
    run(*op, step, values, 2, true);
    REQUIRE(!written());
    run(*op, step, values, 2, false);
    REQUIRE(written());
  }
}

TEST_CASE("rope and the head norms are those of plain double precision, and the cache holds them rounded") {
  for (const Shape& s : kShapes) {
    const Inputs in = inputs(s, 130, 11);
    const Result result = run_all(s, isas().back(), {in}, in_steps(130, 130), 1);
    const std::vector<float> freq = inv_freq(s), q_norm = norm_weight(s, 91), k_norm = norm_weight(s, 92);
    const auto expected = [&](const float* x, const std::vector<float>& weight, std::int64_t position) {
      std::vector<double> y(x, x + s.head_dim);
      if (s.norms) {
        double square = 0;
        for (const double v : y) square += v * v;
        for (std::size_t d = 0; d < y.size(); ++d) y[d] *= weight[d] / std::sqrt(square / static_cast<double>(s.head_dim) + kEps);
      }
      for (std::size_t i = 0; i < freq.size(); ++i) {
        const double angle = static_cast<float>(position) * freq[i];
        const bool pairs = s.pairing == Pairing::interleaved;
        double &a = y[pairs ? 2 * i : i], &b = y[pairs ? 2 * i + 1 : i + freq.size()];
        const double c = std::cos(angle), n = std::sin(angle), a0 = a;
        a = a0 * c - b * n;
        b = a0 * n + b * c;
      }
      return y;
    };
    for (std::int64_t p = 0; p < in.n; p += 43) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::vector<double> y = expected(in.q.data() + (p * s.heads + h) * s.head_dim, q_norm, p);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          const double got = result.q[0][static_cast<std::size_t>((p * s.heads + h) * s.head_dim + d)];
          REQUIRE(std::abs(got - y[static_cast<std::size_t>(d)]) <= 16 * 0x1p-24 * s.q_scale);
        }
      }
      for (std::int64_t g = 0; g < s.kv_heads; ++g) {
        const std::vector<double> y = expected(in.k.data() + (p * s.kv_heads + g) * s.head_dim, k_norm, p);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          const double k = y[static_cast<std::size_t>(d)], rounding = s.type == DType::f16 ? std::abs(k) * 0x1p-11 + 0x1p-24 : 0;
          const float v = in.v[static_cast<std::size_t>((p * s.kv_heads + g) * s.head_dim + d)];
          REQUIRE(std::abs(result.cache->key(result.block(0, p), g, p % kBlock, d) - k) <= rounding + 32 * 0x1p-24 * 2);
          REQUIRE(result.cache->kv_value(result.block(0, p), g, p % kBlock, d) ==
                  (s.type == DType::f16 ? f16_to_f32(f32_to_f16(v)) : v));
        }
      }
    }
  }
}

TEST_CASE("angles are within two units in the last place up to a million") {
  std::vector<float> freq;
  for (int i = 0; i < 37; ++i) freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / 37.0f));
  Graph graph;
  const PrepareContext context = prepare_context(graph, nullptr, DType::f16);
  for (const cpu::Isa isa : isas()) {
    const auto op = cpu::prepare_angles({.inv_freq = freq, .scale = 1, .out = 0}, context, {}, isa);
    std::vector<std::int32_t> positions{0, 1, 2, 3, 63, 255, 4095, 31415, 131071, 163839, 500000, 999983, 1000000},
        zeros(positions.size());
    Step step;
    step.tokens = zeros;
    step.positions = positions;
    step.sequence_of_row = zeros;
    std::vector<Value> values;
    values.emplace_back(step.rows(), 74);
    run(*op, step, values, 2);
    for (std::size_t r = 0; r < positions.size(); ++r)
      for (std::size_t i = 0; i < freq.size(); ++i) {
        const double angle = static_cast<float>(positions[r]) * freq[i];
        const float* row = values[0].row(static_cast<std::int64_t>(r));
        const auto ulp = [](double x) { return std::ldexp(1.0, std::max(std::ilogb(x) - 23, -149)); };
        REQUIRE(std::abs(row[i] - std::cos(angle)) <= 2 * ulp(std::cos(angle)));
        REQUIRE((std::sin(angle) == 0 ? row[37 + i] == 0 : std::abs(row[37 + i] - std::sin(angle)) <= 2 * ulp(std::sin(angle))));
      }
  }
}

}  // namespace
