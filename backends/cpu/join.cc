// out = [norm_p(x_p)] of all parts, side by side. A worker takes a few rows at a time.
#include <algorithm>
#include <vector>

#include "backends/cpu/op.h"
#include "backends/cpu/ops.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kRows = 4;  // in a work item

class JoinOp final : public PreparedOp {
 public:
  JoinOp(const Join& op, const PrepareContext& context, Isa isa)
      : out_(op.out), rows_(&row_kernels(isa)), kernel_(simd::isa_name(isa)) {
    for (const Join::Part& part : op.parts) {
      parts_.push_back({part.x, context.graph->values[static_cast<std::size_t>(part.x)].width,
                        vector_of(context, part.norm.weight), part.norm.eps});
      width_ += parts_.back().width;
    }
  }

  std::size_t scratch_bytes(std::int64_t, int) const override { return 0; }
  int phases(const Step&) const override { return 1; }
  void run(int, const RunContext& c) const override {
    const std::int64_t n = c.step->rows();
    for (std::int64_t first = c.take(kRows); first < n && !c.stopped(); first = c.take(kRows))
      for (std::int64_t r = first; r < std::min(n, first + kRows); ++r) {
        float* to = c.row(out_, r, width_);
        for (const Part& part : parts_) {
          const float* x = c.row(part.x, r, part.width);
          if (part.weight != nullptr)
            rows_->rms_norm(x, part.weight, part.eps, part.width, to);
          else
            std::copy_n(x, part.width, to);
          to += part.width;
        }
      }
  }
  std::string kernel() const override { return kernel_; }

 private:
  struct Part {
    ValueId x;
    std::int64_t width;
    const float* weight;  // (width) or null
    float eps;
  };

  ValueId out_;
  std::vector<Part> parts_;
  std::int64_t width_ = 0;
  const RowKernels* rows_;
  std::string kernel_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_join(const Join& op, const PrepareContext& context, const KernelTable&, Isa isa) {
  return std::make_unique<JoinOp>(op, context, isa);
}

}  // namespace dsv31::inline v1::cpu
