// Every op case on every built-in backend of every instruction set that this processor has, against the reference backend.
//
// How close: in exact mode, and for float weights, an output may differ by the float32 roundings of its longest chain, each of
// 2^-24 of the output's own size or of its row's root mean square, whichever is larger. Products with int8 activations:
// normalised mean square error at most 5e-4. A key or latent that goes through a float16 cache may round to the neighbouring
// float16. Bit for bit: any number of workers, any cut of the prompt into steps, alone or in a batch, any instruction set.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "backends/simd/isa.h"
#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "tests/backends/conformance/cases.h"
#include "tests/backends/conformance/run_case.h"
#include "tests/catch.h"

using namespace conformance;

namespace {

constexpr double kUnit = 0x1p-24;      // float32 rounding
constexpr double kHalfStep = 0x1p-10;  // from one float16 to the next, relative

struct Mode {
  const char* name;
  Numerics numerics;
  DType cache_type;
};
const Mode kModes[] = {{"exact", {.exact = true}, DType::f32},
                       {"fast", {}, DType::f16},
                       {"fast f32 cache", {}, DType::f32},
                       {"relaxed", {.relaxed = true}, DType::f16}};

bool quantised_product(const OpCase& c, const Mode& mode) {
  if (mode.numerics.exact || std::holds_alternative<Embed>(c.op()) || std::holds_alternative<Gate>(c.op())) return false;
  return std::any_of(c.graph.matrices.begin(), c.graph.matrices.end(),
                     [](const MatrixDesc& d) { return format(d.type).block > 1; });
}
bool through_half_cache(const OpCase& c, const Mode& mode) {
  return mode.cache_type == DType::f16 && std::holds_alternative<MlaAttention>(c.op());
}

double square(double x) { return x * x; }

// The largest part of the bound that was used, or a fault.
struct Verdict {
  double used = 0;
  std::string fault{};
  void check(double error, double bound, std::string_view what, std::size_t i) {
    if (!(error <= bound) && fault.empty()) fault = fmt::format("{} {}: got {:.3g} of the bound", what, i, error / bound);
    if (bound > 0) used = std::max(used, error / bound);
  }
};

void compare_output(const OpCase& c, const Mode& mode, std::size_t o, const std::vector<float>& got,
                    const std::vector<float>& want, Verdict& v) {
  if ((std::holds_alternative<Gate>(c.op()) || std::holds_alternative<SparseIndex>(c.op())) && o == 0) {  // ids
    if (std::memcmp(got.data(), want.data(), got.size() * 4) != 0) v.fault = "other experts or keys";
    return;
  }
  const auto width = static_cast<std::size_t>(c.values[static_cast<std::size_t>(c.outputs[o])].width);
  const bool elementwise = !quantised_product(c, mode) && !through_half_cache(c, mode);
  const float* residual = c.residual == kNone ? nullptr : c.values[static_cast<std::size_t>(c.residual)].data.data();
  double error = 0, size = 0;
  for (std::size_t row = 0; row + width <= want.size(); row += width) {
    double mean = 0;
    for (std::size_t i = row; i < row + width; ++i) mean += square(static_cast<double>(want[i])) / static_cast<double>(width);
    for (std::size_t i = row; i < row + width; ++i) {
      const double d = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])), y = static_cast<double>(want[i]);
      if (elementwise) v.check(d, c.roundings * kUnit * std::max(std::abs(y), std::sqrt(mean)), "element", i);
      error += std::isnan(d) ? HUGE_VAL : square(d);
      size += square(y - (residual == nullptr ? 0 : static_cast<double>(residual[i])));
    }
  }
  if (size == 0) return;
  const double nmse = quantised_product(c, mode) ? 5e-4 : through_half_cache(c, mode) ? square(kHalfStep) : 1e-9;
  v.check(error / size, nmse, "nmse of output", o);
}

Verdict compare(const OpCase& c, const Mode& mode, const RunResult& got, const RunResult& want) {
  Verdict v;
  for (std::size_t o = 0; o < want.outputs.size(); ++o) compare_output(c, mode, o, got.outputs[o], want.outputs[o], v);
  for (std::size_t i = 0; i < want.cache.size(); ++i) {
    if (std::memcmp(&got.cache[i], &want.cache[i], 4) == 0) continue;
    const double y = std::abs(static_cast<double>(want.cache[i]));
    const double step = mode.cache_type == DType::f16 ? kHalfStep * y + 0x1p-24 : 0;
    v.check(std::abs(static_cast<double>(got.cache[i]) - static_cast<double>(want.cache[i])),
            c.roundings * kUnit * std::max(y, 1.0) + step, "cache element", i);
  }
  return v;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}
bool same_bits(const RunResult& a, const RunResult& b) {
  for (std::size_t o = 0; o < a.outputs.size(); ++o)
    if (!same_bits(a.outputs[o], b.outputs[o])) return false;
  return same_bits(a.cache, b.cache);
}

// Runs the case in one step on one worker, and checks that every other division of the work gives the same bits.
RunResult run_every_way(const OpCase& c, const Backend& backend, const PackedCase& packed, const Mode& mode) {
  RunOptions options{.numerics = mode.numerics, .cache_type = mode.cache_type};
  RunResult whole = run_case(c, backend, packed, options);
  auto expect_same = [&](const std::string& way) {
    const RunResult r = run_case(c, backend, packed, options);
    INFO(way);
    CHECK(r.faults == std::vector<std::string>{});
    CHECK(same_bits(r, whole));
  };
  for (options.workers = 2; options.workers <= 3; ++options.workers) expect_same(fmt::format("{} workers", options.workers));
  options.workers = 2;
  if (mode.numerics.relaxed) return whole;  // may depend on the shape of the step
  for (const std::int64_t chunk : {1, 3})
    if (options.chunk = chunk; c.rows() > chunk) expect_same(fmt::format("steps of {}", chunk));
  options = {.numerics = mode.numerics, .cache_type = mode.cache_type, .workers = 2, .stopped = true};
  INFO("stopped");
  CHECK(run_case(c, backend, packed, options).faults == std::vector<std::string>{});  // and it returns
  return whole;
}

bool processor_has(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (isa == "avx512")
    return processor_has("avx2") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  if (isa == "amx") return simd::supported(simd::Isa::amx);  // the operating system has to allow it too
#endif
  return isa == "generic";
}

struct Subject {
  std::string isa;
  std::vector<std::unique_ptr<Backend>> backends;  // without the reference
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const std::string isa : {"generic", "avx2", "avx512", "amx"}) {
    if (!processor_has(isa)) continue;
    BuiltinBackends built = builtin_backends(isa);
    REQUIRE(built.isa == isa);
    Subject s{isa, {}};
    for (auto& backend : built.list)
      if (backend->name() != "reference") s.backends.push_back(std::move(backend));
    all.push_back(std::move(s));
  }
  return all;
}

// DSV31_CASE narrows the suite to the cases whose name contains it, for work on a kernel.
std::vector<OpCase> chosen_cases() {
  std::vector<OpCase> cases = all_cases();
  if (const char* part = std::getenv("DSV31_CASE"))
    cases.erase(
        std::remove_if(cases.begin(), cases.end(), [&](const OpCase& c) { return c.name.find(part) == std::string::npos; }),
        cases.end());
  return cases;
}

}  // namespace

TEST_CASE("case names are unique") {
  std::set<std::string> names;
  for (const OpCase& c : all_cases()) {
    CAPTURE(c.name);
    CHECK(names.insert(c.name).second);
  }
}

TEST_CASE("the reference gives the same bits however the work is divided") {
  const std::unique_ptr<Backend> reference = make_reference_backend();
  for (const OpCase& c : chosen_cases()) {
    const PackedCase packed(c, *reference);
    CAPTURE(c.name);
    CHECK(packed.bijection);
    const RunResult r = run_every_way(c, *reference, packed, kModes[1]);
    CHECK(r.faults == std::vector<std::string>{});
  }
}

TEST_CASE("every backend agrees with the reference") {
  struct Count {
    int cases = 0;
    double used = 0;
    std::string closest{};
  };
  const std::unique_ptr<Backend> reference = make_reference_backend();
  const std::vector<Subject> all = subjects();
  std::map<std::string, Count> counts;  // by "backend isa mode"
  for (const OpCase& c : chosen_cases()) {
    const PackedCase reference_packed(c, *reference);
    bool ran = false;
    for (const Mode& mode : kModes) {
      if (&mode == &kModes[2] && c.layer < 0) continue;  // without a cache the same as fast
      const RunResult want =
          run_case(c, *reference, reference_packed, {.numerics = mode.numerics, .cache_type = mode.cache_type});
      std::map<std::string, RunResult> first;  // by backend: on the first instruction set
      for (const Subject& subject : all)
        for (const auto& backend : subject.backends) {
          if (!backend->supports(c.op(), c.graph, mode.numerics)) continue;
          ran = true;
          const std::string name(backend->name());
          CAPTURE(c.name, name, subject.isa, mode.name);
          try {
            const PackedCase packed(c, *backend);
            CHECK(packed.bijection);
            RunResult got = run_every_way(c, *backend, packed, mode);
            CHECK(got.faults == std::vector<std::string>{});
            const Verdict v = compare(c, mode, got, want);
            CHECK(v.fault == "");
            Count& count = counts[fmt::format("{} {} {}", name, subject.isa, mode.name)];
            ++count.cases;
            if (v.used > count.used) count.used = v.used, count.closest = c.name;
            const auto [at, fresh] = first.try_emplace(name, std::move(got));
            if (!fresh && !mode.numerics.relaxed) CHECK(same_bits(got, at->second));  // got is moved from only when it is fresh
          } catch (const std::exception& e) {
            FAIL_CHECK("threw " << e.what());
          }
        }
    }
    const bool no_kernel = std::any_of(c.graph.matrices.begin(), c.graph.matrices.end(),
                                       [](const MatrixDesc& d) { return d.type == DType::f8_e5m2; });
    CAPTURE(c.name);
    if (!no_kernel) CHECK(ran);  // F8_E5M2 alone is left to the reference
  }
  for (const auto& [name, count] : counts)
    std::cout << name << ": " << count.cases << " cases, at most " << count.used << " of the bound (" << count.closest << ")\n";
  if (std::getenv("DSV31_CASE") != nullptr) return;
  for (const Subject& subject : all)
    for (const auto& backend : subject.backends)
      for (const Mode& mode : kModes) {
        CAPTURE(subject.isa, mode.name);
        CHECK(counts[fmt::format("{} {} {}", backend->name(), subject.isa, mode.name)].cases > 0);
      }
}
