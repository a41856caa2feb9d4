// The gated unit of a feed-forward layer or of the experts: h = activation(gate x + gate_bias) * (up x + up_bias), left in the
// form that the kernel of `down` wants. An item is one panel of h: its gate and up products, the activation and the quantisation
// are done by one worker without a barrier between, since a panel holds whole groups of that form.
#pragma once

#include "backends/cpu/op.h"

namespace dsv31::inline v1::cpu {

class GatedUnit {
 public:
  struct Weights {
    MatrixId gate = kNone, up = kNone, down = kNone;
    VectorId gate_bias = kNone, up_bias = kNone;
    Activation activation = Activation::silu;
  };
  GatedUnit(const OpContext& context, const Weights& weights);

  const Matrix& gate() const { return gate_; }  // (count, width, hidden_size)
  const Matrix& up() const { return up_; }
  const Matrix& down() const { return down_; }  // (count, hidden_size, width)
  std::int64_t width() const { return gate_.w.desc.rows; }
  std::size_t scratch_bytes() const;  // of the three kernels

  // How the products of `rows` rows are cut; `units` is how many gated units of this width the op runs side by side.
  Cut cut(std::int64_t rows, std::int64_t units, int workers) const;

  // Rows that `down` takes for each row of h, see planes() in activations.h. A gelu leaves most of h near zero beside a few large
  // values, and one int8 plane too little of the former.
  std::int64_t planes() const { return activation_ == Activation::gelu_tanh ? cpu::planes(down_.kernel->form) : 1; }

  // Memory for the gate and the up panel of at most `rows` rows at a time, and for h (rows, width).
  struct Tiles {
    float *gate = nullptr, *up = nullptr;
  };
  Tiles place_tiles(Area& own, std::int64_t rows) const;
  Activations place_hidden(Area& area, std::int64_t rows) const {
    return place_activations(area, down_.kernel->form, rows * planes(), width());
  }

  struct Panel {
    std::int64_t index = 0;  // which expert
    std::int64_t strip_begin = 0, strip_end = 0;
    const Inputs* in = nullptr;          // x
    std::int64_t in_row = 0;             // without `rows`: x rows in_row .. in_row + m - 1
    const std::int32_t* rows = nullptr;  // (m): rows of x
    std::int64_t m = 0;
    const Activations* hidden = nullptr;  // h of rows hidden_row .. hidden_row + m - 1 is filled, planes() rows each
    std::int64_t hidden_row = 0;
  };
  void run(const Panel& p, const Tiles& tiles, std::byte* kernel_scratch) const;

 private:
  const RowKernels* kernels_;
  Matrix gate_, up_, down_;
  const float *gate_bias_, *up_bias_;  // (width) or null
  Activation activation_;
};

}  // namespace dsv31::inline v1::cpu
