// out[r] = scale * weight[token[r]]. A row of the table lies spread over its packed strip, so the strip's 16 rows are decoded and
// one is kept; an item is a piece of one row, so that even one token keeps several workers busy.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/op.h"
#include "backends/cpu/ops.h"
#include "dsv31/error.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kPiece = 1024;  // a multiple of every format's block

class EmbedOp final : public CpuOp {
 public:
  EmbedOp(const Embed& op, const OpContext& context)
      : CpuOp(context),
        op_(op),
        weight_(context.prepare.matrices[op.weight]),
        format_(context.kernels.format(weight_.desc.type)) {
    if (format_ == nullptr)
      throw Error{Code::unsupported, "cpu.embed", "got a table of a type without packed form, expected one that has it"};
  }
  int phases(const Step&) const override { return 1; }
  void run(int, const RunContext& c) const override {
    const std::int64_t cols = weight_.desc.cols, pieces = (cols + kPiece - 1) / kPiece, items = c.step->rows() * pieces;
    Areas area = areas(c, c.step->rows());
    auto* strip = area.own.take<float>(kPiece * kStrip);
    for (std::int64_t i = c.take(1); i < items && !c.stopped(); i = c.take(1)) {
      const std::int64_t r = i / pieces, begin = i % pieces * kPiece, end = std::min(begin + kPiece, cols);
      const std::int64_t token = c.step->tokens[static_cast<std::size_t>(r)];
      if (token < 0 || token >= weight_.desc.rows)
        throw Error{Code::argument, "cpu.embed", fmt::format("got token {}, expected one of {}", token, weight_.desc.rows)};
      format_->decode_strip(weight_, 0, token / kStrip, begin, end, strip);
      float* out = c.row(op_.out, r, cols) + begin;
      const float* mine = strip + token % kStrip;
      for (std::int64_t k = 0; k < end - begin; ++k) out[k] = op_.scale * mine[k * kStrip];
    }
  }

 private:
  std::int64_t few() const override { return 1; }
  void measure(Area&, Area& own, std::int64_t) const override { own.take<float>(kPiece * kStrip); }

  Embed op_;
  PackedMatrix weight_;  // (vocab_size, hidden_size)
  const PackedFormat* format_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_embed(const Embed& op, const PrepareContext& context, const KernelTable& kernels, Isa isa) {
  return std::make_unique<EmbedOp>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
