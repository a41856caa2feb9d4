// Angles: the cosines and sines of a step's rows, once for all layers.
#include <string>
#include <utility>

#include "backends/cpu/attention.h"
#include "backends/cpu/attention_kernels.h"

namespace dsv31::inline v1::cpu {
namespace {

class PreparedAngles final : public PreparedOp {
 public:
  PreparedAngles(Angles op, const AttentionKernels& kernels) : op_(std::move(op)), kernels_(&kernels) {}

  std::size_t scratch_bytes(std::int64_t, int) const override { return 0; }
  int phases(const Step&) const override { return 1; }

  void run(int, const RunContext& context) const override {
    const auto half = static_cast<std::int64_t>(op_.inv_freq.size());
    const std::int64_t rows = context.step->rows();
    for (std::int64_t r = context.worker; r < rows; r += context.workers) {
      if (context.stopped()) return;
      const auto position = static_cast<float>(context.step->positions[static_cast<std::size_t>(r)]);
      kernels_->angles(op_.inv_freq.data(), half, position, op_.scale, context.row(op_.out, r, 2 * half));
    }
  }

  std::string kernel() const override { return "f32"; }

 private:
  Angles op_;
  const AttentionKernels* kernels_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_angles(const Angles& op, const PrepareContext&, const KernelTable&, Isa isa) {
  return std::make_unique<PreparedAngles>(op, attention_kernels(isa));
}

}  // namespace dsv31::inline v1::cpu
