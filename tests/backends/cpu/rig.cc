#include "tests/backends/cpu/rig.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dsv31/quant.h"
#include "tests/catch.h"

namespace dsv31::test {

Aligned::Aligned(std::size_t bytes, int fill) : memory_(std::aligned_alloc(64, (bytes + 63) / 64 * 64)) {
  std::memset(memory_.get(), fill, (bytes + 63) / 64 * 64);
}
void Aligned::Free::operator()(void* p) const { std::free(p); }

std::vector<float> normal(std::size_t n, std::uint32_t seed, float deviation) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> x(n);
  for (float& v : x) v = draw(rng);
  return x;
}

std::vector<std::byte> float_matrix(DType type, std::int64_t elements, std::uint32_t seed, float deviation) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(format_bytes(type, elements)));
  const std::vector<float> x = normal(static_cast<std::size_t>(elements), seed, deviation);
  format(type).encode(x.data(), elements / format(type).block, bytes.data());
  return bytes;
}

MatrixId Rig::matrix(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  const MatrixDesc desc = {"random", type, count, rows, cols};
  const cpu::PackedFormat& packed = *kernels_.format(type);
  const std::size_t stride = packed.matrix_bytes(desc);
  memory_.push_back(std::make_unique<Aligned>(stride * static_cast<std::size_t>(count), 0xff));
  PackedMatrix m = {desc, memory_.back()->data(), stride, nullptr};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto source =
        float_matrix(type, rows * cols, seed + static_cast<std::uint32_t>(i) * 1000, 2 / std::sqrt(static_cast<float>(cols)));
    std::byte* to = memory_.back()->data() + static_cast<std::size_t>(i) * stride;
    const std::int64_t cut = rows / 32 * 16;  // packed in two ranges
    const std::size_t row_bytes = source.size() / static_cast<std::size_t>(rows);
    if (cut > 0) packed.pack(desc, 0, cut, source.data(), to);
    packed.pack(desc, cut, rows, source.data() + static_cast<std::size_t>(cut) * row_bytes, to);
  }
  if (type == DType::f8_e4m3) {
    scales_.push_back(normal(static_cast<std::size_t>(count * ((rows + 127) / 128) * ((cols + 127) / 128)), seed + 7));
    m.scales = scales_.back().data();
  }
  graph.matrices.push_back(desc);
  matrices_.push_back(m);
  return static_cast<MatrixId>(matrices_.size()) - 1;
}

VectorId Rig::vector(std::int64_t n, std::uint32_t seed, float around) {
  vectors_.push_back(normal(static_cast<std::size_t>(n), seed, 0.5f));
  for (float& v : vectors_.back()) v += around;
  graph.vector_widths.push_back(n);
  return static_cast<VectorId>(vectors_.size()) - 1;
}

ValueId Rig::value(std::int64_t width, bool logits) {
  graph.values.push_back({width, logits});
  return static_cast<ValueId>(graph.values.size()) - 1;
}

PrepareContext Rig::context(Numerics numerics) {
  vector_pointers_.clear();
  for (const auto& v : vectors_) vector_pointers_.push_back(v.data());
  return {.graph = &graph,
          .matrices = matrices_.data(),
          .vectors = vector_pointers_.data(),
          .numerics = numerics,
          .cache_type = DType::f16};
}

std::vector<float> Rig::run(const PreparedOp& op, const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
                            const Run& run) {
  const auto n = static_cast<std::int64_t>(run.rows.size());
  std::vector<std::unique_ptr<Aligned>> memory;
  std::vector<float*> values;
  for (const ValueDesc& v : graph.values) {
    const std::size_t rows = v.logits ? run.logit_rows.size() : run.rows.size();
    // Not a number everywhere, padding included: none of it may reach a result.
    memory.push_back(std::make_unique<Aligned>(rows * static_cast<std::size_t>(row_stride(v.width)) * 4, 0xff));
    values.push_back(memory.back()->as<float>());
  }
  for (ValueId id : inputs)
    for (std::int64_t r = 0; r < n; ++r) {
      const std::int64_t width = graph.values[static_cast<std::size_t>(id)].width;
      const std::int32_t row = run.rows[static_cast<std::size_t>(r)];
      std::vector<float> x;
      if (input != nullptr) x = input(id, width, row);
      if (x.empty()) x = normal(static_cast<std::size_t>(width), static_cast<std::uint32_t>(id * 7919 + row));
      std::copy(x.begin(), x.end(), values[static_cast<std::size_t>(id)] + r * row_stride(width));
    }
  Step step;
  step.tokens = run.rows;
  step.logit_rows = run.logit_rows;
  Aligned scratch(op.scratch_bytes(n, run.workers), 0xff);
  std::atomic<bool> stop = false;
  for (int phase = 0; phase < op.phases(step); ++phase) {
    std::atomic<std::int64_t> cursor = 0;
    const auto work = [&](int worker) {
      RunContext c;
      c.step = &step;
      c.values = values.data();
      c.scratch = scratch.data();
      c.worker = worker;
      c.workers = run.workers;
      c.cursor = &cursor;
      c.stop = &stop;
      op.run(phase, c);
    };
    if (run.threads) {
      std::vector<std::thread> threads;
      for (int w = 0; w < run.workers; ++w) threads.emplace_back(work, w);
      for (std::thread& t : threads) t.join();
    } else {
      // The first to come takes nearly all items: in each phase another worker.
      for (int w = 0; w < run.workers; ++w) work((w + phase) % run.workers);
    }
  }
  std::vector<float> result;
  for (ValueId id : outputs) {
    const ValueDesc& v = graph.values[static_cast<std::size_t>(id)];
    const std::size_t rows = v.logits ? run.logit_rows.size() : run.rows.size();
    for (std::size_t r = 0; r < rows; ++r) {
      const float* row = values[static_cast<std::size_t>(id)] + static_cast<std::int64_t>(r) * row_stride(v.width);
      result.insert(result.end(), row, row + v.width);
    }
  }
  return result;
}

}  // namespace dsv31::test
