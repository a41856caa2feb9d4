#include "tests/backends/conformance/run_case.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "dsv31/quant.h"

namespace conformance {

namespace {

constexpr std::size_t kGuard = 256;  // bytes before and after a buffer
constexpr std::byte kTrap{0xff};     // four of them are a NaN, two a half NaN

// `bytes` bytes full of traps between two guards.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), all_(allocate_aligned(bytes + 2 * kGuard)) {
    std::memset(all_.get(), static_cast<int>(kTrap), bytes + 2 * kGuard);
  }
  std::byte* data() { return all_.get() + kGuard; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (all_.get()[i] != kTrap || all_.get()[kGuard + bytes_ + i] != kTrap) return false;
    return true;
  }

 private:
  std::size_t bytes_;
  AlignedBytes all_;
};

// Elements of one position, [K | V] or latent, and where element i of them stands in a block.
std::int64_t slot_width(const CacheDesc& d) { return d.width(); }
std::int64_t element_at(const CacheDesc& d, std::int64_t slot, std::int64_t i) {
  const std::int64_t keys = d.num_key_value_heads * d.head_dim;
  if (d.latent > 0 && i >= d.latent) return i * kBlock + slot;  // behind the latents: (indexer, kBlock)
  if (d.latent > 0) return slot * d.latent + i;
  if (i < keys) return i * kBlock + slot;  // K (heads, head_dim, kBlock)
  return keys * kBlock + ((i - keys) / d.head_dim * kBlock + slot) * d.head_dim +
         (i - keys) % d.head_dim;  // V (heads, kBlock, head_dim)
}

// A cache with the past of the case's sequences in shuffled blocks of small slabs.
class Cache {
 public:
  Cache(const OpCase& c, DType type) : case_(c), type_(type) {
    const std::size_t size = type == DType::f32 ? 4 : 2;
    std::size_t slab_bytes = 0;
    for (const CacheDesc& d : c.graph.caches) {
      offsets_.push_back(slab_bytes);
      bytes_.push_back(static_cast<std::size_t>(kBlock * slot_width(d)) * size);
      slab_bytes += static_cast<std::size_t>(kSlabBlocks) * bytes_.back();
    }
    std::int32_t blocks = 0;
    for (const Past& s : c.sequences) blocks += 2 * static_cast<std::int32_t>((s.position + s.rows + kBlock - 1) / kBlock);
    const std::int32_t slabs = (blocks + kSlabBlocks - 1) / kSlabBlocks;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(slabs * kSlabBlocks));
    Random random(fmt::format("blocks of {}", c.name));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = ids.size(); i > 1; --i)
      std::swap(ids[i - 1], ids[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    if (!c.graph.caches.empty())
      for (std::int32_t i = 0; i < slabs; ++i) slabs_.emplace_back(slab_bytes);
    for (Guarded& s : slabs_) {
      std::memset(s.data(), 0, slab_bytes);
      pointers_.push_back(s.data());
    }
    slab_bytes_ = slab_bytes;
    std::size_t next = 0;
    for (const Past& s : c.sequences) {
      const auto n = static_cast<std::size_t>((s.position + s.rows + kBlock - 1) / kBlock);
      tables_.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(next), ids.begin() + static_cast<std::ptrdiff_t>(next + n));
      next += n;
      window_tables_.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(next),
                                  ids.begin() + static_cast<std::ptrdiff_t>(next + n));
      next += n;
      if (c.layer >= 0) fill(s, tables_.size() - 1);
    }
  }

  CacheView view() { return {type_, pointers_.data(), kSlabBlocks, offsets_.data(), bytes_.data()}; }
  const std::int32_t* table(std::size_t sequence) const { return tables_[sequence].data(); }
  const std::int32_t* window_table(std::size_t sequence) const { return window_tables_[sequence].data(); }
  bool intact() const {
    for (const Guarded& s : slabs_)
      if (!s.intact()) return false;
    return true;
  }
  std::vector<float> elements_of_all() const {
    std::vector<float> all;
    for (const std::byte* p : pointers_)
      for (std::size_t i = 0; i < slab_bytes_ / (type_ == DType::f32 ? 4 : 2); ++i)
        all.push_back(get(p, static_cast<std::int64_t>(i)));
    return all;
  }
  std::vector<float> of_rows() {
    std::vector<float> rows;
    if (case_.layer < 0) return rows;
    const CacheDesc& d = case_.graph.caches[static_cast<std::size_t>(case_.layer)];
    for (std::size_t s = 0; s < case_.sequences.size(); ++s)
      for (std::int64_t r = 0; r < case_.sequences[s].rows; ++r) {
        const std::int64_t t = case_.sequences[s].position + r;
        const std::int32_t id = (d.window > 0 ? window_tables_ : tables_)[s][static_cast<std::size_t>(t / kBlock)];
        for (std::int64_t i = 0; i < slot_width(d); ++i)
          rows.push_back(get(view().block(case_.layer, id), element_at(d, t % kBlock, i)));
      }
    return rows;
  }

 private:
  static constexpr std::int32_t kSlabBlocks = 3;

  void fill(const Past& s, std::size_t sequence) {
    const CacheDesc& d = case_.graph.caches[static_cast<std::size_t>(case_.layer)];
    auto& used = d.window > 0 ? window_tables_[sequence] : tables_[sequence];
    const auto& unused = d.window > 0 ? tables_[sequence] : window_tables_[sequence];
    CacheView cache = view();
    for (const std::int32_t id : unused)  // the table of the other kind of layer: never to be read here
      std::memset(cache.block(case_.layer, id), static_cast<int>(kTrap), bytes_[static_cast<std::size_t>(case_.layer)]);
    Random random(fmt::format("cache of {} {}", case_.name, sequence));
    const std::int64_t filled = s.position + (case_.rows_cached ? s.rows : 0);
    const std::int64_t width = slot_width(d);
    for (std::int64_t t = 0; t < filled; ++t) {
      std::byte* block = cache.block(case_.layer, used[static_cast<std::size_t>(t / kBlock)]);
      const double scale = seen(s, d.window, t) ? case_.key_scale : 1000;  // one hidden from all rows would drown all others
      for (std::int64_t i = 0; i < width; ++i)
        put(block, element_at(d, t % kBlock, i),
            case_.past.empty() ? static_cast<float>(scale * random.normal())
                               : case_.past[sequence][static_cast<std::size_t>(t * width + i)]);
    }
    for (std::size_t b = 0; b < used.size();
         ++b) {  // a block that no row sees is not to be looked at: it may have been given back
      bool any = false;
      for (std::int64_t t = 0; t < kBlock; ++t) any = any || seen(s, d.window, static_cast<std::int64_t>(b) * kBlock + t);
      if (!any) used[b] = INT32_MAX;
    }
  }
  // Whether any row of the sequence sees the key in a layer with this window.
  static bool seen(const Past& s, std::int64_t layer_window, std::int64_t key) {
    for (std::int64_t p = std::max(s.position, key); p < s.position + s.rows; ++p)
      if ((layer_window == 0 || key > p - layer_window) && s.window.sees(p, key)) return true;
    return false;
  }
  void put(std::byte* block, std::int64_t i, float value) const {
    const std::uint16_t half = f32_to_f16(value);
    if (type_ == DType::f32)
      std::memcpy(block + i * 4, &value, 4);
    else
      std::memcpy(block + i * 2, &half, 2);
  }

  float get(const std::byte* block, std::int64_t i) const {
    float value = 0;
    std::uint16_t half = 0;
    if (type_ == DType::f32) return std::memcpy(&value, block + i * 4, 4), value;
    return std::memcpy(&half, block + i * 2, 2), f16_to_f32(half);
  }

  const OpCase& case_;
  DType type_;
  std::vector<std::size_t> offsets_, bytes_;  // by layer
  std::vector<Guarded> slabs_;
  std::vector<std::byte*> pointers_;
  std::size_t slab_bytes_ = 0;
  std::vector<std::vector<std::int32_t>> tables_, window_tables_;  // by sequence
};

// Rows [first, first + rows) of sequence `sequence` of the case.
struct Part {
  std::size_t sequence = 0;
  std::int64_t first = 0, rows = 0;
};

void run_phases(const PreparedOp& op, const Step& step, float* const* values, std::byte* scratch, const RunOptions& options,
                std::vector<std::string>& faults) {
  const int workers = options.workers;
  std::atomic<bool> stop{options.stopped};
  std::atomic<bool> allocated{false};
  for (int phase = 0, phases = op.phases(step); phase < phases; ++phase) {
    std::atomic<std::int64_t> cursor{0};
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(workers));
    auto work = [&](int worker) {
      const std::int64_t before = allocations();
      try {
        op.run(phase, {.step = &step,
                       .values = values,
                       .scratch = scratch,
                       .worker = worker,
                       .workers = workers,
                       .cursor = &cursor,
                       .stop = &stop});
      } catch (...) {
        thrown[static_cast<std::size_t>(worker)] = std::current_exception();
      }
      if (allocations() != before) allocated = true;
    };
    std::vector<std::thread> threads;
    for (int w = 1; w < workers; ++w) threads.emplace_back(work, w);
    work(0);
    for (std::thread& t : threads) t.join();
    for (const std::exception_ptr& e : thrown)
      if (e) std::rethrow_exception(e);
  }
  // oneDNN allocates inside its own products, which the library cannot change: ops with one of its kernels are let off this
  // check.
  const bool onednn = op.kernel().find(" onednn-") != std::string::npos;
  if (allocated && !onednn) faults.push_back("allocated while running");
}

}  // namespace

void FreeAligned::operator()(std::byte* p) const { std::free(p); }
AlignedBytes allocate_aligned(std::size_t bytes) {
  return AlignedBytes(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
}

PackedCase::PackedCase(const OpCase& c, const Backend& backend) {
  for (std::size_t id = 0; id < c.weights.size(); ++id) {
    const MatrixDesc& d = c.graph.matrices[id];
    const std::size_t stride = backend.packed_bytes(d), row = static_cast<std::size_t>(format_bytes(d.type, d.cols));
    const std::size_t source = row * static_cast<std::size_t>(d.rows);
    storage.push_back(allocate_aligned(stride * static_cast<std::size_t>(d.count)));
    std::byte* packed = storage.back().get();
    std::vector<std::byte> back(c.weights[id].size());
    const std::int64_t middle = d.rows > 16 ? d.rows / 32 * 16 : 0;  // rows come in two ranges, the later one first
    for (std::int64_t i = 0; i < d.count; ++i) {
      const std::byte* src = c.weights[id].data() + static_cast<std::size_t>(i) * source;
      std::byte* to = packed + static_cast<std::size_t>(i) * stride;
      backend.pack(d, middle, d.rows, src + static_cast<std::size_t>(middle) * row, to);
      if (middle > 0) backend.pack(d, 0, middle, src, to);
      std::byte* restored = back.data() + static_cast<std::size_t>(i) * source;
      if (middle > 0) backend.unpack(d, 0, middle, to, restored);
      backend.unpack(d, middle, d.rows, to, restored + static_cast<std::size_t>(middle) * row);
    }
    bijection = bijection && back == c.weights[id];
    matrices.push_back({d, packed, stride, c.scales[id].empty() ? nullptr : c.scales[id].data()});
  }
  for (const std::vector<float>& v : c.vectors) vectors.push_back(v.data());
}

RunResult run_case(const OpCase& c, const Backend& backend, const PackedCase& packed, const RunOptions& options) {
  const std::unique_ptr<PreparedOp> op = backend.prepare(c.op(), {.graph = &c.graph,
                                                                  .matrices = packed.matrices.data(),
                                                                  .vectors = packed.vectors.data(),
                                                                  .numerics = options.numerics,
                                                                  .cache_type = options.cache_type});
  Cache cache(c, options.cache_type);
  RunResult result;
  for (const ValueId id : c.outputs) {
    const Value& v = c.values[static_cast<std::size_t>(id)];
    const std::size_t n = v.logits ? c.logit_rows.size() : static_cast<std::size_t>(c.rows());
    result.outputs.emplace_back(n * static_cast<std::size_t>(v.width));
  }

  std::vector<std::int64_t> first_row;  // of each sequence, in the whole case
  std::vector<std::vector<Part>> steps;
  if (options.chunk == 0) steps.emplace_back();
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    first_row.push_back(s == 0 ? 0 : first_row.back() + c.sequences[s - 1].rows);
    if (options.chunk == 0)
      steps[0].push_back({s, 0, c.sequences[s].rows});
    else
      for (std::int64_t r = 0; r < c.sequences[s].rows; r += options.chunk)
        steps.push_back({{s, r, std::min(options.chunk, c.sequences[s].rows - r)}});
  }

  for (const std::vector<Part>& parts : steps) {
    std::vector<std::int32_t> tokens, positions, sequence_of_row, logit_rows;
    std::vector<SequenceRows> sequences;
    std::vector<std::int64_t> source_row, source_logit;  // where the step's rows stand in the whole case
    for (const Part& p : parts) {
      const std::int64_t position = c.sequences[p.sequence].position + p.first;
      sequences.push_back({.first_row = static_cast<std::int64_t>(tokens.size()),
                           .rows = p.rows,
                           .position = position,
                           .blocks = cache.table(p.sequence),
                           .window_blocks = cache.window_table(p.sequence),
                           .window = c.sequences[p.sequence].window});
      for (std::int64_t r = 0; r < p.rows; ++r) {
        source_row.push_back(first_row[p.sequence] + p.first + r);
        for (std::size_t j = 0; j < c.logit_rows.size(); ++j)
          if (c.logit_rows[j] == source_row.back()) {
            logit_rows.push_back(static_cast<std::int32_t>(tokens.size()));
            source_logit.push_back(static_cast<std::int64_t>(j));
          }
        tokens.push_back(c.tokens[static_cast<std::size_t>(source_row.back())]);
        positions.push_back(static_cast<std::int32_t>(position + r));
        sequence_of_row.push_back(static_cast<std::int32_t>(sequences.size() - 1));
      }
    }
    const Step step{.tokens = tokens,
                    .positions = positions,
                    .sequence_of_row = sequence_of_row,
                    .sequences = sequences,
                    .logit_rows = logit_rows,
                    .cache = cache.view()};

    std::vector<Guarded> buffers;
    std::vector<float*> values;
    for (const Value& v : c.values) {
      const std::vector<std::int64_t>& rows = v.logits ? source_logit : source_row;
      buffers.emplace_back(rows.size() * static_cast<std::size_t>(row_stride(v.width)) * 4);
      values.push_back(buffers.back().floats());
      if (!v.data.empty())
        for (std::size_t r = 0; r < rows.size(); ++r)
          std::memcpy(values.back() + static_cast<std::int64_t>(r) * row_stride(v.width), v.data.data() + rows[r] * v.width,
                      static_cast<std::size_t>(v.width) * 4);
    }
    Guarded scratch(op->scratch_bytes(step.rows(), options.workers));
    run_phases(*op, step, values.data(), scratch.data(), options, result.faults);

    if (!scratch.intact()) result.faults.push_back("scratch overrun");
    for (std::size_t id = 0; id < c.values.size(); ++id) {
      const Value& v = c.values[id];
      if (!buffers[id].intact()) result.faults.push_back(fmt::format("overrun of value {}", id));
      if (v.written || v.data.empty()) continue;
      for (std::size_t r = 0; r < source_row.size(); ++r)
        if (std::memcmp(values[id] + static_cast<std::int64_t>(r) * row_stride(v.width), v.data.data() + source_row[r] * v.width,
                        static_cast<std::size_t>(v.width) * 4) != 0)
          result.faults.push_back(fmt::format("input value {} changed", id));
    }
    for (std::size_t o = 0; o < c.outputs.size(); ++o) {
      const auto id = static_cast<std::size_t>(c.outputs[o]);
      const Value& v = c.values[id];
      const std::vector<std::int64_t>& rows = v.logits ? source_logit : source_row;
      for (std::size_t r = 0; r < rows.size(); ++r)
        std::memcpy(result.outputs[o].data() + rows[r] * v.width, values[id] + static_cast<std::int64_t>(r) * row_stride(v.width),
                    static_cast<std::size_t>(v.width) * 4);
    }
  }
  if (!cache.intact()) result.faults.push_back("cache overrun");
  result.cache = cache.elements_of_all();
  result.cached = cache.of_rows();
  return result;
}

}  // namespace conformance
