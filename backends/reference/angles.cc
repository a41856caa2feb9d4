// The angles of rotary position embedding, once a step for all layers. The angle itself is a float32 product, as in the
// implementations that trained the models; cosine and sine are exact for that angle.
#include <cmath>

#include "backends/reference/ops.h"
#include "backends/reference/rows_op.h"

namespace dsv31::inline v1::reference {
namespace {

class AnglesOp final : public RowsOp {
 public:
  explicit AnglesOp(const Angles& op) : op_(op) {}

 private:
  std::int64_t scratch_doubles() const override { return 0; }
  void run_tile(int, const RunContext& c, Rows rows, Scratch) const override {
    // angle = float(position) * inv_freq[i]; out = [cos(angle) * scale | sin(angle) * scale]
    const auto half = static_cast<std::int64_t>(op_.inv_freq.size());
    const double scale = static_cast<double>(op_.scale);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const auto position = static_cast<float>(c.step->positions[static_cast<std::size_t>(r)]);
      float* out = c.row(op_.out, r, 2 * half);
      for (std::int64_t i = 0; i < half; ++i) {
        const float angle = position * op_.inv_freq[static_cast<std::size_t>(i)];
        out[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * scale);
        out[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)) * scale);
      }
    }
  }

  Angles op_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Angles& op, const PrepareContext&) { return std::make_unique<AnglesOp>(op); }

}  // namespace dsv31::inline v1::reference
