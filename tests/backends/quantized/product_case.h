// Random packed matrices and quantised activations for the tests of the int8 product.
#pragma once

#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "backends/quantized/layout.h"
#include "backends/quantized/packed.h"
#include "dsv31/quant.h"

namespace quantized_test {

using namespace dsv31;

// Zeroed memory between two pages that may not be touched, its end at the second one but for what 64-byte alignment takes: a
// kernel that reads or writes past its operands ends the program. The kernels are built without sanitizers, which would see that.
template <class T>
class Walled {
 public:
  explicit Walled(std::size_t n) : n_(n), bytes_((n * sizeof(T) + 63) / 64 * 64), mapped_((bytes_ + kPage - 1) / kPage * kPage) {
    void* p = ::mmap(nullptr, mapped_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(p);
    if (mapped_ > 0 && ::mprotect(base_ + kPage, mapped_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~Walled() { ::munmap(base_, mapped_ + 2 * kPage); }
  Walled(const Walled&) = delete;
  Walled& operator=(const Walled&) = delete;
  T* data() { return reinterpret_cast<T*>(base_ + kPage + mapped_ - bytes_); }
  const T* data() const { return reinterpret_cast<const T*>(base_ + kPage + mapped_ - bytes_); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  std::size_t size() const { return n_; }

 private:
  static constexpr std::size_t kPage = 65536;  // a multiple of every page size
  std::size_t n_, bytes_, mapped_;
  std::byte* base_;
};

struct Random {
  std::uint64_t state;
  std::uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 32);
  }
};

// Offsets of the half-precision fields of a source block.
inline std::vector<int> half_fields(const quantized::Layout& layout) {
  std::vector<int> at;
  for (const quantized::Field& f : layout.fields)
    if (f.unit == 2 && f.bytes == 2 && !(layout.type == DType::iq4_xs && f.source == 2)) at.push_back(f.source);
  return at;
}

// Source rows (rows, cols / block, source_bytes) of random bytes with finite scales below 2 in magnitude.
inline std::vector<std::byte> random_rows(const quantized::Layout& layout, std::int64_t rows, std::int64_t cols,
                                          std::uint64_t seed) {
  Random random{seed};
  std::vector<std::byte> out(static_cast<std::size_t>(rows * cols / layout.block * layout.source_bytes));
  for (std::byte& b : out) b = static_cast<std::byte>(random.next() & 255);
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(layout.source_bytes)) {
    for (int f : half_fields(layout)) out[at + static_cast<std::size_t>(f) + 1] &= std::byte{0xBF};
    if (layout.type == DType::mxfp4)
      out[at] = static_cast<std::byte>(random.next() % 9 == 0 ? random.next() % 3 : 120 + random.next() % 16);
  }
  return out;
}

// Activation rows (m, cols) with their scales, sides and sums, quantised by the contract of backends/cpu/matmul.h.
struct QuantisedRows {
  QuantisedRows(std::int64_t m, std::int64_t cols)
      : stride((cols + 127) / 128 * 128),
        padded((cols + 511) / 512 * 512),
        q(static_cast<std::size_t>(m * stride)),
        scale(static_cast<std::size_t>(m * (padded / cpu::kGroup + 3))),
        side(scale.size()),
        sums(static_cast<std::size_t>(m * (padded / 16 + 5))) {
    x.form = cpu::Form::q8;
    x.cols = cols;
    x.q = q.data();
    x.scale = scale.data();
    x.side = side.data();
    x.sums = sums.data();
    x.q_stride = stride;
    x.scale_stride = padded / cpu::kGroup + 3;  // strides of no round number
    x.sum_stride = padded / 16 + 5;
  }
  void set_sums(std::int64_t row) {
    for (std::int64_t k = 0; k < stride; ++k) {
      std::int16_t& s = sums[static_cast<std::size_t>(row * x.sum_stride + k / 16)];
      if (k % 16 == 0) s = 0;
      s = static_cast<std::int16_t>(s + q[static_cast<std::size_t>(row * stride + k)]);
    }
    for (std::int64_t k = 0; k < stride; k += cpu::kGroup) {
      const auto at = static_cast<std::size_t>(row * x.sum_stride + k / 16),
                 g = static_cast<std::size_t>(row * x.scale_stride + k / cpu::kGroup);
      side[g] = scale[g] * static_cast<float>(sums[at] + sums[at + 1]);
    }
  }
  std::int64_t stride, padded;
  Walled<std::int8_t> q;
  Walled<float> scale, side;
  Walled<std::int16_t> sums;
  cpu::Activations x;
};

inline void fill_random(QuantisedRows& rows, std::int64_t m, std::uint64_t seed) {
  Random random{seed};
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t k = 0; k < rows.x.cols; ++k)
      rows.q[static_cast<std::size_t>(r * rows.stride + k)] =
          static_cast<std::int8_t>(static_cast<int>(random.next() % 255) - 127);
    for (std::int64_t g = 0; g < rows.x.scale_stride; ++g)
      rows.scale[static_cast<std::size_t>(r * rows.x.scale_stride + g)] =
          static_cast<float>(random.next() % 1000 + 1) * 0x1.0p-14f;
    rows.set_sums(r);
  }
}

struct PackedCase {
  PackedCase(const quantized::Layout& l, std::int64_t rows, std::int64_t cols, std::vector<std::byte> source)
      : layout(l),
        desc{"w", l.type, 1, rows, cols},
        src(std::move(source)),
        data(quantized::packed_format(l.type)->matrix_bytes(desc)) {
    quantized::packed_format(l.type)->pack(desc, 0, rows, src.data(), data.data());
    packed = {desc, data.data(), data.size(), nullptr};
  }
  const quantized::Layout& layout;
  MatrixDesc desc;
  std::vector<std::byte> src;
  Walled<std::byte> data;
  PackedMatrix packed;
};

// out (m, rows rounded up to 16) panel by panel with the given kernel.
inline std::vector<float> product(const cpu::MatmulKernel& kernel, const PackedCase& w, const cpu::Activations& x, std::int64_t m,
                                  const std::int32_t* rows = nullptr) {
  const std::int64_t strips = (w.desc.rows + 15) / 16, width = strips * 16;
  std::vector<float> all(static_cast<std::size_t>(m * width));
  Walled<float> out(static_cast<std::size_t>(m * 64));
  Walled<std::byte> scratch(kernel.scratch_bytes(w.desc));
  for (std::int64_t s = 0; s < strips; s += cpu::kPanelStrips) {
    const std::int64_t end = s + cpu::kPanelStrips < strips ? s + cpu::kPanelStrips : strips;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = NAN;  // a kernel writes whole strips
    kernel.run({&w.packed, 0, s, end, &x, rows, m, out.data(), 64, scratch.data()});
    for (std::int64_t j = 0; j < m; ++j)
      std::memcpy(all.data() + j * width + 16 * s, out.data() + 64 * j, static_cast<std::size_t>(16 * (end - s)) * sizeof(float));
  }
  return all;
}

// Index of the first element whose bits differ, -1 if none does.
inline std::ptrdiff_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

}  // namespace quantized_test
