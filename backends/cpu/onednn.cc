// out[j][r] = sum over k of w[r][k] * x[rows[j]][k], as float_gemm_isa.h has it, but summed in the order that oneDNN likes.
//
// Each worker calls sgemm for its own rows and strips, on its own thread: row-major (m, k) x (k, 16) -> (m, 16). A packed strip
// [k][16] is the second operand as it lies there, with 16 as its leading dimension, so that float32 weights need neither a copy
// nor a layout of oneDNN's own. Narrower weights are widened a block of k at a time, which every row of the item then shares.
//
// Why sgemm and not a matmul primitive: the blocked layout that matches the strips (BA16a16b) has a fast matmul only where there
// is AVX-512, a plain one runs the same code as sgemm, and primitives are objects that would have to be made for every shape of
// step. The sum of an element depends on the shape of the product (m, K) alone, hence not on the number of workers.
#include "backends/cpu/onednn.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>

#include "backends/cpu/area.h"
#include "backends/cpu/float_gemm.h"
#include "dsv31/error.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kFewest = 32;  // rows: below, own kernels, which read the weights straight from the packed form
constexpr std::int64_t kRows = 128;   // rows in a call
constexpr std::int64_t kDepth = 512;  // k in a call that needs a copy of an operand

// oneDNN shares a call out over OpenMP's threads, as many as the calling thread's own setting says. Workers are threads of the
// host's where it gave its executor: its setting comes back.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

struct Product {
  std::int64_t m = 0, depth = 0;
  const float* x = nullptr;  // (m, ldx)
  std::int64_t ldx = 0;
  const float* w = nullptr;  // (depth, 16)
  float* out = nullptr;      // (m, ld)
  std::int64_t ld = 0;
  bool first = true;  // out = product instead of out += product
};

void multiply(const Product& p) {
  const dnnl_status_t status =
      dnnl_sgemm('N', 'N', p.m, kStrip, p.depth, 1, p.x, p.ldx, p.w, kStrip, p.first ? 0.0f : 1.0f, p.out, p.ld);
  if (status == dnnl_success) return;
  throw Error{
      status == dnnl_out_of_memory ? Code::no_memory : Code::backend, "cpu.onednn",
      fmt::format("got status {} from sgemm of {} x {} x {}, expected success", static_cast<int>(status), p.m, kStrip, p.depth)};
}

struct Scratch {
  float* strip;  // (kDepth, 16): widened weights
  float* rows;   // (kRows, kDepth): gathered activations
};
Scratch place(Area& area) { return {area.take<float>(kDepth * kStrip), area.take<float>(kRows * kDepth)}; }

template <Isa isa>
void run(const MatmulArgs& a) {
  if (a.m < kFewest) return float_kernel(a.w->desc.type, isa)->run(a);
  const OneThread one;
  Area area(a.scratch);
  const Scratch scratch = place(area);
  const std::int64_t cols = a.w->desc.cols;
  const bool narrow = a.w->desc.type != DType::f32;
  const std::int64_t step = narrow || a.rows != nullptr ? kDepth : cols;
  const auto* matrix = reinterpret_cast<const float*>(a.w->data + static_cast<std::size_t>(a.index) * a.w->stride);
  for (std::int64_t j = 0; j < a.m; j += kRows)
    for (std::int64_t k = 0; k < cols; k += step) {
      const std::int64_t m = std::min(kRows, a.m - j), depth = std::min(step, cols - k);
      Product p = {.m = m, .depth = depth, .x = a.x->f32 + j * a.x->f32_stride + k, .ldx = a.x->f32_stride, .ld = a.ld};
      p.first = k == 0;
      if (a.rows != nullptr) {
        for (std::int64_t i = 0; i < m; ++i)
          std::copy_n(a.x->f32 + a.rows[j + i] * a.x->f32_stride + k, depth, scratch.rows + i * kDepth);
        p.x = scratch.rows;
        p.ldx = kDepth;
      }
      for (std::int64_t s = a.strip_begin; s < a.strip_end; ++s) {
        if (narrow) float_kernels_of(isa).decode(*a.w, a.index, s, k, k + depth, scratch.strip);
        p.w = narrow ? scratch.strip : matrix + (s * cols + k) * kStrip;
        p.out = a.out + j * a.ld + (s - a.strip_begin) * kStrip;
        multiply(p);
      }
    }
}

template <Isa isa>
std::size_t scratch_bytes(const MatrixDesc& w) {
  Area area;
  place(area);
  return std::max(area.used(), float_kernel(w.type, isa)->scratch_bytes(w));
}

template <Isa isa>
constexpr std::array<MatmulKernel, 4> kKernels = {{{"onednn-F32*f32", Form::f32, run<isa>, scratch_bytes<isa>},
                                                   {"onednn-F16*f32", Form::f32, run<isa>, scratch_bytes<isa>},
                                                   {"onednn-BF16*f32", Form::f32, run<isa>, scratch_bytes<isa>},
                                                   {"onednn-F8_E4M3*f32", Form::f32, run<isa>, scratch_bytes<isa>}}};

// oneDNN takes the best instruction set there is: where the host forced a lesser one, its products stay with our kernels.
const MatmulKernel* relaxed_kernel(DType type, Isa isa) {
  if (isa != simd::best_isa()) return nullptr;
  const std::array<MatmulKernel, 4>& kernels = simd::vectors_of(isa) == Isa::avx512 ? kKernels<Isa::avx512>
                                               : isa == Isa::avx2                   ? kKernels<Isa::avx2>
                                                                                    : kKernels<Isa::generic>;
  switch (type) {
    case DType::f32:
      return &kernels[0];
    case DType::f16:
      return &kernels[1];
    case DType::bf16:
      return &kernels[2];
    case DType::f8_e4m3:
      return &kernels[3];
    default:
      return nullptr;
  }
}

}  // namespace

const KernelTable& onednn_kernels() {
  static const KernelTable kTable = {float_kernels().format, float_kernels().kernel, relaxed_kernel};
  return kTable;
}

}  // namespace dsv31::inline v1::cpu
