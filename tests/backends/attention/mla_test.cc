// Latent attention: against plain double precision without absorption, and bit for bit against itself.
#include <algorithm>
#include <cmath>

#include "tests/backends/attention/rig.h"

namespace {

using namespace attention_rig;

struct Shape {
  std::int64_t heads = 3, rank = 32, nope = 16, pe = 8, v = 16;
  Pairing pairing = Pairing::interleaved;
  DType type = DType::f16;
  DType weights = DType::f32;
  float q_scale = 1;
  AttentionWindow attend{};  // of the inputs
};

constexpr float kEps = 1e-6f;
constexpr float kScale = 0.3f;
constexpr ValueId kAngles = 0, kQ = 1, kC = 2, kOut = 3;

struct Inputs {
  std::int64_t n = 0;
  std::vector<float> q, c;
  AttentionWindow attend{};
};

Inputs inputs(const Shape& s, std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  return {n, random.floats(n * s.heads * (s.nope + s.pe), s.q_scale), random.floats(n * (s.rank + s.pe), 2), s.attend};
}

// A stack of matrices in the packed form, and its exact values.
struct Weights {
  std::vector<float> values;  // (count, rows, cols)
  std::unique_ptr<std::byte[], Free> data;
  PackedMatrix packed;

  Weights(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
    values = Random(seed).floats(count * rows * cols, 1 / std::sqrt(static_cast<float>(cols)));
    std::vector<std::uint16_t> bf16;
    if (type == DType::bf16)
      for (float& x : values) {
        bf16.push_back(f32_to_bf16(x));
        x = bf16_to_f32(bf16.back());
      }
    const cpu::PackedFormat& format = *cpu::float_kernels().format(type);
    packed.desc = {.name = "weights", .type = type, .count = count, .rows = rows, .cols = cols};
    packed.stride = format.matrix_bytes(packed.desc);
    data = aligned_bytes(packed.stride * static_cast<std::size_t>(count), 0);
    packed.data = data.get();
    for (std::int64_t i = 0; i < count; ++i) {
      const void* src =
          type == DType::bf16 ? static_cast<const void*>(bf16.data() + i * rows * cols) : values.data() + i * rows * cols;
      format.pack(packed.desc, 0, rows, static_cast<const std::byte*>(src),
                  data.get() + packed.stride * static_cast<std::size_t>(i));
    }
  }
  float at(std::int64_t index, std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>((index * packed.desc.rows + row) * packed.desc.cols + col)];
  }
};

struct Model {
  Shape shape;
  Weights k_b, v_b;
  std::vector<float> kv_norm;

  explicit Model(const Shape& s)
      : shape(s),
        k_b(s.weights, s.heads, s.rank, s.nope, 71),
        v_b(s.weights, s.heads, s.v, s.rank, 72),
        kv_norm(Random(73).floats(s.rank, 0.25f)) {
    for (float& x : kv_norm) x += 1;
  }

  std::unique_ptr<PreparedOp> prepare(cpu::Isa isa, Numerics numerics = {}) const {
    Graph graph;
    graph.caches = {{.latent = shape.rank + shape.pe}};
    graph.context_length = 2048;
    const float* vectors[] = {kv_norm.data()};
    const PackedMatrix matrices[] = {k_b.packed, v_b.packed};
    PrepareContext context = prepare_context(graph, vectors, shape.type);
    context.matrices = matrices;
    context.numerics = numerics;
    return cpu::prepare_mla_attention({.num_attention_heads = shape.heads,
                                       .kv_lora_rank = shape.rank,
                                       .qk_nope_head_dim = shape.nope,
                                       .qk_rope_head_dim = shape.pe,
                                       .v_head_dim = shape.v,
                                       .pairing = shape.pairing,
                                       .scale = kScale,
                                       .kv_norm = {.weight = 0, .eps = kEps},
                                       .k_b = 0,
                                       .v_b = 1,
                                       .angles = kAngles,
                                       .q = kQ,
                                       .c = kC,
                                       .out = kOut},
                                      context, cpu::float_kernels(), isa);
  }
};

std::vector<float> inv_freq(const Shape& s) {
  std::vector<float> f;
  for (std::int64_t i = 0; i < s.pe / 2; ++i)
    f.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(s.pe)));
  return f;
}

struct Result {
  std::vector<std::vector<float>> out;  // by sequence, (n, heads * v)
  std::unique_ptr<Cache> cache;
  std::int64_t blocks_each = 0;
  std::size_t sequences = 0;

  std::int32_t block(std::size_t s, std::int64_t position) const {
    return StepTables::block_id(s, position / kBlock, blocks_each, sequences);
  }
};

struct Options {
  int workers = 1;
  std::uint8_t stale = 0;    // what all blocks hold before the first step
  bool random_past = false;  // blocks hold random values instead
  Numerics numerics{};
};

Result run_all(const Model& model, cpu::Isa isa, const std::vector<Inputs>& in, const Schedule& schedule,
               const Options& options = {}) {
  const Shape& s = model.shape;
  Result result;
  std::int64_t longest = 0;
  std::vector<AttentionWindow> windows;
  for (const Inputs& i : in) {
    windows.push_back(i.attend);
    longest = std::max(longest, i.n);
    result.out.emplace_back(static_cast<std::size_t>(i.n * s.heads * s.v));
  }
  result.sequences = in.size();
  result.blocks_each = (longest + kBlock - 1) / kBlock;
  const int blocks = static_cast<int>(result.blocks_each) * static_cast<int>(in.size());
  result.cache = std::make_unique<Cache>(CacheDesc{.latent = s.rank + s.pe}, s.type, blocks);
  for (int b = 0; b < blocks; ++b) result.cache->fill(b, options.stale);
  if (options.random_past) result.cache->randomise(5);

  Graph graph;
  const auto angles =
      cpu::prepare_angles({.inv_freq = inv_freq(s), .out = kAngles}, prepare_context(graph, nullptr, s.type), {}, isa);
  const auto op = model.prepare(isa, options.numerics);
  for (const std::vector<Piece>& pieces : schedule) {
    const StepTables tables(pieces, result.blocks_each, in.size(), 0, windows);
    const Step step = tables.step(result.cache->view());
    const std::int64_t n = step.rows();
    std::vector<Value> values;
    for (const std::int64_t width : {s.pe, s.heads * (s.nope + s.pe), s.rank + s.pe, s.heads * s.v})
      values.emplace_back(n, width);
    std::int64_t r = 0;
    for (const Piece& p : pieces)
      for (std::int64_t i = 0; i < p.rows; ++i, ++r)
        for (const auto& [id, from] : {std::pair{kQ, &in[p.sequence].q}, {kC, &in[p.sequence].c}}) {
          Value& to = values[static_cast<std::size_t>(id)];
          std::copy_n(from->data() + (p.first + i) * to.width(), to.width(), to.row(r));
        }
    run(*angles, step, values, options.workers);
    run(*op, step, values, options.workers);
    r = 0;
    for (const Piece& p : pieces)
      for (std::int64_t i = 0; i < p.rows; ++i, ++r)
        std::copy_n(values[kOut].row(r), s.heads * s.v, result.out[p.sequence].data() + (p.first + i) * s.heads * s.v);
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

void turn(std::vector<double>& x, std::size_t at, const Shape& s, std::int64_t position) {
  const std::vector<float> freq = inv_freq(s);
  for (std::size_t i = 0; i < freq.size(); ++i) {
    const double angle = static_cast<float>(position) * freq[i];
    const bool pairs = s.pairing == Pairing::interleaved;
    double &a = x[at + (pairs ? 2 * i : i)], &b = x[at + (pairs ? 2 * i + 1 : i + freq.size())];
    const double c = std::cos(angle), n = std::sin(angle), a0 = a;
    a = a0 * c - b * n;
    b = a0 * n + b * c;
  }
}

// The largest error of head h at position p, in units of the bound that rounding allows: <= 1 is right. Keys and values are
// expanded from the cached latents: k_t = W_UK c_t, v_t = W_UV c_t.
double excess(const Model& model, const Inputs& in, const Result& result, std::int64_t p, std::int64_t h) {
  const Shape& s = model.shape;
  const double eps = 0x1p-24;
  std::vector<double> q(in.q.begin() + (p * s.heads + h) * (s.nope + s.pe),
                        in.q.begin() + (p * s.heads + h + 1) * (s.nope + s.pe));
  turn(q, static_cast<std::size_t>(s.nope), s, p);
  const auto latent = [&](std::int64_t t, std::int64_t d) {
    return double{result.cache->value(result.block(0, t), t % kBlock * (s.rank + s.pe) + d)};
  };
  std::vector<double> score;
  double top = -INFINITY, score_error = 0;
  for (std::int64_t t = 0; t <= p; ++t) {
    if (!s.attend.sees(p, t)) {
      score.push_back(-INFINITY);
      continue;
    }
    double dot = 0, magnitude = 0;
    for (std::int64_t j = 0; j < s.nope + s.pe; ++j) {
      double k = 0, size = 0;
      if (j < s.nope) {
        for (std::int64_t d = 0; d < s.rank; ++d) {
          k += model.k_b.at(h, d, j) * latent(t, d);
          size += std::abs(model.k_b.at(h, d, j) * latent(t, d));
        }
      } else {
        k = latent(t, s.rank + j - s.nope);
        size = std::abs(k);
      }
      dot += q[static_cast<std::size_t>(j)] * k;
      magnitude += std::abs(q[static_cast<std::size_t>(j)]) * size;
    }
    score_error = std::max(score_error, magnitude * kScale * eps * static_cast<double>(s.nope + s.rank + s.pe + 8));
    score.push_back(dot * kScale);
    top = std::max(top, score.back());
  }
  double sum = 0;
  for (double& x : score) sum += x = std::exp(x - top);
  double worst = 0;
  for (std::int64_t j = 0; j < s.v; ++j) {
    double o = 0, magnitude = 0;
    for (std::int64_t d = 0; d < s.rank; ++d)
      for (std::int64_t t = 0; t <= p; ++t) {
        if (!s.attend.sees(p, t)) continue;
        const double x = score[static_cast<std::size_t>(t)] / sum * latent(t, d) * model.v_b.at(h, j, d);
        o += x;
        magnitude += std::abs(x);
      }
    const double bound = magnitude * (2 * score_error + static_cast<double>(p + s.rank + 40) * eps) + 1e-30;
    const double error = std::abs(o - result.out[0][static_cast<std::size_t>((p * s.heads + h) * s.v + j)]);
    worst = std::max(worst, error <= bound ? error / bound : INFINITY);  // a NaN is infinitely wrong
  }
  return worst;
}

const Shape kShapes[] = {
    {},
    {.heads = 5, .rank = 40, .nope = 20, .pe = 12, .v = 24, .pairing = Pairing::half_split, .type = DType::f32},
    {.heads = 50, .rank = 16, .nope = 8, .pe = 4, .v = 8, .weights = DType::bf16},
    {.heads = 2, .rank = 80, .nope = 32, .pe = 16, .v = 80, .type = DType::f32, .q_scale = 4},
    {.attend = {.window = 100, .sinks = 4}},
    {.heads = 5, .rank = 16, .nope = 8, .pe = 4, .v = 8, .attend = {.window = 1, .sinks = 257}},
};

TEST_CASE("latent attention agrees with expanded keys and values in double precision") {
  for (const Shape& s : kShapes) {
    const Model model(s);
    const Inputs in = inputs(s, 521, 7);
    // Prefill rows up to 512, then decode rows.
    const Schedule schedule{{{0, 0, 300}}, {{0, 300, 212}}, {{0, 512, 1}}, {{0, 513, 7}}, {{0, 520, 1}}};
    const Result result = run_all(model, isas().back(), {in}, schedule, {.workers = 2});
    for (const std::int64_t p : {0, 1, 16, 63, 64, 65, 255, 256, 257, 300, 511, 512, 515, 520})
      for (std::int64_t h = 0; h < s.heads; h += s.heads > 10 ? 7 : 1) {
        INFO("position " << p << " head " << h);
        REQUIRE(excess(model, in, result, p, h) <= 1);
      }
  }
}

TEST_CASE("the latent cache holds the normalised latent and the turned k_pe") {
  for (const Shape& s : kShapes) {
    const Model model(s);
    const Inputs in = inputs(s, 70, 8);
    const Result result = run_all(model, isas().back(), {in}, in_steps(70, 70));
    for (const std::int64_t p : {0, 1, 63, 64, 69}) {
      std::vector<double> x(in.c.begin() + p * (s.rank + s.pe), in.c.begin() + (p + 1) * (s.rank + s.pe));
      double square = 0;
      for (std::int64_t d = 0; d < s.rank; ++d) square += x[static_cast<std::size_t>(d)] * x[static_cast<std::size_t>(d)];
      for (std::size_t d = 0; d < static_cast<std::size_t>(s.rank); ++d)
        x[d] *= model.kv_norm[d] / std::sqrt(square / static_cast<double>(s.rank) + kEps);
      turn(x, static_cast<std::size_t>(s.rank), s, p);
      for (std::size_t d = 0; d < x.size(); ++d) {
        const double rounding = s.type == DType::f16 ? std::abs(x[d]) * 0x1p-11 + 0x1p-24 : 0;
        const double got = result.cache->value(result.block(0, p), p % kBlock * (s.rank + s.pe) + static_cast<std::int64_t>(d));
        REQUIRE(std::abs(got - x[d]) <= rounding + 32 * 0x1p-24 * 2);
      }
    }
  }
}

TEST_CASE("latent attention gives the same bits on every instruction set and by any number of workers") {
  for (const Shape& s : kShapes) {
    const Model model(s);
    const std::vector<Inputs> in{inputs(s, 330, 9)};
    const Schedule schedule{{{0, 0, 300}}, {{0, 300, 1}}, {{0, 301, 5}}, {{0, 306, 24}}};
    const Result expected = run_all(model, cpu::Isa::generic, in, schedule);
    for (const cpu::Isa isa : isas())
      for (const int workers : {1, 2, 3}) {
        const Result got = run_all(model, isa, in, schedule, {.workers = workers});
        REQUIRE(same_bits(got.out[0], expected.out[0]));
        REQUIRE(same_cache(got, 0, expected, 0, 330));
      }
  }
}

TEST_CASE("a prompt cut into steps gives the bits of one pass of latent attention, cache included") {
  for (const Shape& s : kShapes)
    for (const cpu::Isa isa : isas()) {
      if (isa == cpu::Isa::generic) continue;
      const Model model(s);
      const std::vector<Inputs> in{inputs(s, 530, 10)};
      const Result expected = run_all(model, isa, in, in_steps(530, 530));
      for (const std::int64_t rows : {1, 7, 64}) {
        const Result got = run_all(model, isa, in, in_steps(530, rows), {.workers = rows == 1 ? 1 : 2});
        REQUIRE(same_bits(got.out[0], expected.out[0]));
        REQUIRE(same_cache(got, 0, expected, 0, 530));
      }
    }
}

TEST_CASE("a batch of prefill and many decoding sequences gives the bits of each alone") {
  for (const Shape& s : kShapes) {
    const Model model(s);
    const cpu::Isa isa = isas().back();
    std::vector<Inputs> in;
    for (std::int64_t i = 0; i < 40; ++i) in.push_back(inputs(s, 20 + 7 * i, static_cast<std::uint64_t>(i)));
    Schedule together(3);
    for (std::size_t i = 0; i < in.size(); ++i) {
      together[0].push_back({i, 0, in[i].n - 17});
      together[1].push_back({i, in[i].n - 17, i % 5 == 0 ? 16 : 14});  // some prefill among decode
      together[2].push_back({i, in[i].n - (i % 5 == 0 ? 1 : 3), i % 5 == 0 ? 1 : 3});
    }
    const Result batch = run_all(model, isa, in, together, {.workers = 2});
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Result alone = run_all(model, isa, {in[i]}, in_steps(in[i].n, in[i].n));
      REQUIRE(same_bits(batch.out[i], alone.out[0]));
      REQUIRE(same_cache(batch, i, alone, 0, in[i].n));
    }
  }
}

TEST_CASE("sequences of one step have windows of their own in latent attention") {
  const AttentionWindow windows[] = {
      {}, {.window = 10, .sinks = 2}, {.window = 100}, {.window = 40, .sinks = 130}, {.window = 300, .sinks = 1}};
  const Model model({});
  std::vector<Inputs> in;
  Schedule together(3);
  for (std::size_t i = 0; i < 10; ++i) {
    in.push_back(inputs(model.shape, 560, i));
    in[i].attend = windows[i % 5];
    together[0].push_back({i, 0, 540});
    together[1].push_back({i, 540, i % 2 == 0 ? 17 : 7});
    together[2].push_back({i, i % 2 == 0 ? 557 : 547, i % 2 == 0 ? 3 : 13});
  }
  const Result batch = run_all(model, isas().back(), in, together, {.workers = 2});
  for (std::size_t i = 0; i < in.size(); ++i)
    REQUIRE(same_bits(batch.out[i], run_all(model, isas().back(), {in[i]}, in_steps(560, 560)).out[0]));
}

TEST_CASE("what stale latents hold, NaN included, never enters") {
  for (const Shape& s : kShapes)
    for (const cpu::Isa isa : isas()) {
      const Model model(s);
      const std::vector<Inputs> in{inputs(s, 150, 11)};
      for (const std::int64_t rows : {10, 150}) {
        const Result clean = run_all(model, isa, in, in_steps(150, rows));
        REQUIRE(same_bits(run_all(model, isa, in, in_steps(150, rows), {.stale = 0xff}).out[0], clean.out[0]));
      }
    }
}

TEST_CASE("relaxed numerics expand long prefill and agree with the absorbed form") {
  for (const Shape& s : kShapes)
    for (const cpu::Isa isa : isas()) {
      if (isa == cpu::Isa::generic && s.heads > 10) continue;
      const Model model(s);
      const std::int64_t n = isa == cpu::Isa::generic ? 200 : 777;
      const std::vector<Inputs> in{inputs(s, n, 13), inputs(s, 30, 14)};
      const Schedule schedule{{{0, 0, n - 180}, {1, 0, 30}}, {{0, n - 180, 180}}};
      const Schedule one{{{0, 0, n}, {1, 0, 30}}};
      const Result absorbed = run_all(model, isa, in, one, {.numerics = {.exact = true}});
      const Result expanded = run_all(model, isa, in, one, {.workers = 2, .numerics = {.exact = true, .relaxed = true}});
      const Result cut = run_all(model, isa, in, schedule, {.workers = 3, .numerics = {.exact = true, .relaxed = true}});
      REQUIRE(!same_bits(expanded.out[0], absorbed.out[0]));
      REQUIRE(same_bits(expanded.out[1], absorbed.out[1]));
      for (const Result* got : {&expanded, &cut}) {
        double error = 0, power = 0;
        for (std::size_t i = 0; i < absorbed.out[0].size(); ++i) {
          const double d = double{got->out[0][i]} - absorbed.out[0][i];
          error += d * d;
          power += double{absorbed.out[0][i]} * absorbed.out[0][i];
        }
        REQUIRE(error <= 1e-10 * power);
      }
    }
}

TEST_CASE("waves of latent attention give the bits of a single row's one wave") {
  const Model model({.heads = 64, .rank = 512, .nope = 16, .pe = 16, .v = 16});
  Schedule schedule;
  for (std::int64_t p = 1085; p < 1100; ++p) schedule.push_back({{0, p, 1}});
  for (const AttentionWindow& attend : {AttentionWindow{}, {.window = 500, .sinks = 300}}) {
    std::vector<Inputs> in{inputs(model.shape, 1100, 12)};
    in[0].attend = attend;
    const Result together = run_all(model, isas().back(), in, {{{0, 1085, 15}}}, {.workers = 2, .random_past = true});
    const Result single = run_all(model, isas().back(), in, schedule, {.random_past = true});
    REQUIRE(same_bits(together.out[0], single.out[0]));
  }
  const StepTables fifteen({{0, 1085, 15}}, 18, 1, 0), one({{0, 1099, 1}}, 18, 1, 0);
  REQUIRE(model.prepare(isas().back())->phases(fifteen.step({})) == 5);  // absorb, and two waves
  REQUIRE(model.prepare(isas().back())->phases(one.step({})) == 3);
}

}  // namespace
