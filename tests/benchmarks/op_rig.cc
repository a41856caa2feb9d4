#include "tests/benchmarks/op_rig.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "backends/simd/isa.h"
#include "dsv31/quant.h"
#include "tests/backends/quantized/product_case.h"

namespace dsv31::bench {

void OpRig::Release::operator()(std::byte* p) const { std::free(p); }

OpRig::Bytes OpRig::aligned(std::size_t bytes) {
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, (bytes + 127) / 64 * 64);
  return Bytes(p);
}

MatrixId OpRig::matrix(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols) {
  const MatrixDesc desc{"w", type, count, rows, cols};
  const std::size_t stride = backend_->packed_bytes(desc);
  memory_.push_back(aligned(stride * static_cast<std::size_t>(count)));
  PackedMatrix m{desc, memory_.back().get(), stride, nullptr};
  std::vector<std::byte> source;
  if (const quantized::Layout* layout = quantized::layout_of(type)) {
    source = quantized_test::random_rows(*layout, rows, cols, 3);
  } else if (format(type).encode == nullptr) {
    source.assign(static_cast<std::size_t>(format_bytes(type, rows * cols)), std::byte{0x30});
  } else {
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    quantized_test::Random random{5};
    for (float& f : x) f = static_cast<float>(static_cast<std::int32_t>(random.next())) * 0x1p-33f;
    source.resize(static_cast<std::size_t>(format_bytes(type, rows * cols)));
    format(type).encode(x.data(), rows * cols / format(type).block, source.data());
  }
  for (std::int64_t i = 0; i < count; ++i)
    backend_->pack(desc, 0, rows, source.data(), memory_.back().get() + static_cast<std::size_t>(i) * stride);
  if (type == DType::f8_e4m3) {
    vectors_.emplace_back(static_cast<std::size_t>(count * ((rows + 127) / 128) * ((cols + 127) / 128)), 1.0f);
    m.scales = vectors_.back().data();
  }
  packed_bytes_ += stride * static_cast<std::uint64_t>(count);
  graph_.matrices.push_back(desc);
  matrices_.push_back(m);
  return static_cast<MatrixId>(matrices_.size()) - 1;
}

VectorId OpRig::vector(std::int64_t n) {
  vectors_.emplace_back(static_cast<std::size_t>(n), 1.0f);
  vector_pointers_.push_back(vectors_.back().data());
  graph_.vector_widths.push_back(n);
  return static_cast<VectorId>(vector_pointers_.size()) - 1;
}

ValueId OpRig::value(std::int64_t width) {
  graph_.values.push_back({width});
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

void OpRig::cache(const CacheDesc& desc, std::int64_t keys) {
  graph_.caches.push_back(desc);
  const std::int64_t blocks = (keys + kBlock - 1) / kBlock;
  layer_bytes_ = static_cast<std::size_t>(desc.width() * kBlock) * 2;
  memory_.push_back(aligned(layer_bytes_ * static_cast<std::size_t>(blocks)));
  auto* const halves = reinterpret_cast<std::uint16_t*>(memory_.back().get());
  quantized_test::Random random{9};
  for (std::size_t i = 0; i < layer_bytes_ / 2 * static_cast<std::size_t>(blocks); ++i)
    halves[i] = static_cast<std::uint16_t>(0x3000 | (random.next() & 0x8BFF));  // +-0.125 .. 0.25
  slabs_.push_back(memory_.back().get());
  view_ = {.type = DType::f16,
           .slabs = slabs_.data(),
           .slab_blocks = static_cast<std::int32_t>(blocks),
           .layer_offset = &layer_offset_,
           .layer_bytes = &layer_bytes_};
  for (std::int64_t b = 0; b < blocks; ++b) blocks_.push_back(static_cast<std::int32_t>(b));
}

void OpRig::prepare(const Op& op, std::int64_t rows, std::int64_t position, int copies) {
  for (int c = 0; c < copies; ++c) {
    copies_.push_back(matrices_);
    for (PackedMatrix& m : copies_.back()) {
      if (c == 0) continue;
      const std::size_t bytes = m.stride * static_cast<std::size_t>(m.desc.count);
      memory_.push_back(aligned(bytes));
      std::memcpy(memory_.back().get(), m.data, bytes);
      m.data = memory_.back().get();
    }
  }
  std::size_t scratch = 0;
  for (const auto& m : copies_) {
    PrepareContext context;
    context.graph = &graph_;
    context.matrices = m.data();
    context.vectors = vector_pointers_.data();
    context.cache_type = DType::f16;
    ops_.push_back(backend_->prepare(op, context));
    scratch = std::max(scratch, ops_.back()->scratch_bytes(rows, team_.size()));
  }
  memory_.push_back(aligned(scratch));
  scratch_ = memory_.back().get();
  quantized_test::Random random{11};
  for (const ValueDesc& v : graph_.values) {
    memory_.push_back(aligned(static_cast<std::size_t>(rows * row_stride(v.width)) * sizeof(float)));
    values_.push_back(reinterpret_cast<float*>(memory_.back().get()));
    for (std::int64_t i = 0; i < rows * row_stride(v.width); ++i)
      values_.back()[i] = static_cast<float>(static_cast<std::int32_t>(random.next())) * 0x1p-31f;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    tokens_.push_back(0);
    positions_.push_back(static_cast<std::int32_t>(position + r));
    sequence_of_row_.push_back(0);
  }
  sequence_ = {.first_row = 0, .rows = rows, .position = position, .blocks = blocks_.data(), .window_blocks = blocks_.data()};
  step_.tokens = tokens_;
  step_.positions = positions_;
  step_.sequence_of_row = sequence_of_row_;
  step_.sequences = {&sequence_, 1};
  step_.cache = view_;
}

void OpRig::run() {
  struct Walk final : sched::Team::Work {
    const PreparedOp* op;
    RunContext base;
    std::atomic<std::int64_t> cursor{0};
    std::atomic<bool> stop{false};
    std::int64_t phases() const override { return op->phases(*base.step); }
    void run(std::int64_t phase, int worker) override {
      RunContext context = base;
      context.worker = worker;
      op->run(static_cast<int>(phase), context);
    }
    bool between(std::int64_t) override {
      cursor.store(0, std::memory_order_relaxed);
      return false;
    }
  } walk;
  walk.op = ops_[turn_++ % ops_.size()].get();
  walk.base.step = &step_;
  walk.base.values = values_.data();
  walk.base.scratch = scratch_;
  walk.base.workers = team_.size();
  walk.base.cursor = &walk.cursor;
  walk.base.stop = &walk.stop;
  team_.execute(walk);
}

const MachineProfile& machine(const std::string& isa, int threads) {
  static std::map<std::pair<std::string, int>, MachineProfile> known;
  auto [at, fresh] = known.try_emplace({isa, threads});
  if (fresh) {
    RuntimeOptions options;
    options.isa = isa;
    options.threads = threads;
    at->second = probe_machine(Runtime(options), {.buffer_bytes = 1 << 26, .seconds_a_loop = 0.02});
  }
  return at->second;
}

std::vector<std::string> isas() {
  std::vector<std::string> out;
  for (const simd::Isa isa : {simd::Isa::generic, simd::Isa::avx2, simd::Isa::avx512, simd::Isa::amx})
    if (simd::supported(isa)) out.emplace_back(simd::isa_name(isa));
  return out;
}

}  // namespace dsv31::bench
