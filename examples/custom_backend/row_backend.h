// A whole backend in one file: `rows` runs Linear on weights that it keeps as they stand in the file, and counts its products.
//
// It is written against the same headers as the built-in ones (op.h, quant.h, backend.h) and plain rather than fast. What a
// backend must keep to is written in backend.h: no waiting and no allocation inside run(), and results that depend neither on the
// number of workers nor on the other rows of the step. Ops that it does not support go to the built-in backends by themselves.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>

#include "dsv31/backend.h"
#include "dsv31/quant.h"

namespace rows {

// out_p = residual + W_p norm(x) + bias_p. Phase 0: the normalised rows, a row at a time; phase 1: the products, a row of weights
// at a time, which is decoded once for all rows of x.
class LinearRows final : public dsv31::PreparedOp {
 public:
  LinearRows(const dsv31::Linear& op, const dsv31::PrepareContext& context, std::atomic<std::int64_t>& products)
      : op_(op), products_(products), norm_(vector_of(context, op.norm.weight)) {
    for (const dsv31::Linear::Part& part : op.parts)
      parts_.push_back({context.matrices[part.weight], vector_of(context, part.bias), part.out});
    in_ = parts_.front().weight.desc.cols;
  }

  // Shared: x (n, in_features); then a decoded row of weights for each worker.
  std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const override {
    return static_cast<std::size_t>((max_rows + max_workers) * dsv31::row_stride(in_)) * sizeof(float);
  }
  int phases(const dsv31::Step&) const override { return 2; }
  std::string kernel() const override { return "plain"; }

  void run(int phase, const dsv31::RunContext& c) const override {
    const std::int64_t n = c.step->rows(), stride = dsv31::row_stride(in_);
    auto* x = reinterpret_cast<float*>(c.scratch);
    if (phase == 0) {
      for (std::int64_t r = c.take(1); r < n && !c.stopped(); r = c.take(1)) normalise(c.row(op_.x, r, in_), x + r * stride);
      return;
    }
    float* w = x + (n + c.worker) * stride;
    std::int64_t item = c.take(1), first = 0;  // items are the output features of all parts, one part after the other
    for (const Part& part : parts_) {
      const std::int64_t out_features = part.weight.desc.rows;
      for (; item < first + out_features; item = c.take(1)) {
        if (c.stopped()) return;
        multiply(c, part, item - first, w, x);
      }
      first += out_features;
    }
  }

 private:
  struct Part {
    dsv31::PackedMatrix weight;  // (out_features, in_features)
    const float* bias;           // (out_features) or null
    dsv31::ValueId out;          // (n, out_features)
  };
  static const float* vector_of(const dsv31::PrepareContext& context, dsv31::VectorId id) {
    return id == dsv31::kNone || context.vectors == nullptr ? nullptr : context.vectors[id];
  }

  void normalise(const float* from, float* to) const {
    double squares = 0;
    for (std::int64_t i = 0; i < in_; ++i) squares += static_cast<double>(from[i]) * from[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(in_) + static_cast<double>(op_.norm.eps));
    for (std::int64_t i = 0; i < in_; ++i) to[i] = norm_ == nullptr ? from[i] : static_cast<float>(norm_[i] * (from[i] * scale));
  }

  void multiply(const dsv31::RunContext& c, const Part& part, std::int64_t feature, float* w, const float* x) const {
    const dsv31::MatrixDesc& desc = part.weight.desc;
    const dsv31::FormatInfo& format = dsv31::format(desc.type);
    format.decode(part.weight.data + feature * dsv31::format_bytes(desc.type, in_), in_ / format.block, w);
    for (std::int64_t r = 0; r < c.step->rows(); ++r, x += dsv31::row_stride(in_)) {
      double sum = part.bias == nullptr ? 0 : static_cast<double>(part.bias[feature]);
      for (std::int64_t i = 0; i < in_; ++i) sum += static_cast<double>(w[i]) * x[i];
      if (op_.residual != dsv31::kNone) sum += static_cast<double>(c.row(op_.residual, r, desc.rows)[feature]);
      c.row(part.out, r, desc.rows)[feature] = static_cast<float>(sum);
    }
    products_.fetch_add(c.step->rows() * in_, std::memory_order_relaxed);
  }

  dsv31::Linear op_;
  std::atomic<std::int64_t>& products_;
  const float* norm_;  // (in_features) or null
  std::vector<Part> parts_;
  std::int64_t in_ = 0;
};

class RowBackend final : public dsv31::Backend {
 public:
  std::string_view name() const override { return "rows"; }
  // All but what would need more code than an example should have: a norm after the product, and weights with scales beside them.
  bool supports(const dsv31::Op& op, const dsv31::Graph& graph, dsv31::Numerics) const override {
    const auto* linear = std::get_if<dsv31::Linear>(&op);
    if (linear == nullptr || linear->post_norm.weight != dsv31::kNone) return false;
    for (const dsv31::Linear::Part& part : linear->parts) {
      const dsv31::DType type = graph.matrices[static_cast<std::size_t>(part.weight)].type;
      if (dsv31::format(type).decode == nullptr || type == dsv31::DType::f8_e4m3) return false;
    }
    return true;
  }
  int affinity(const dsv31::Op&, const dsv31::Graph&, dsv31::Numerics) const override { return 100; }  // the built-in ones say 10

  std::string_view layout() const override { return "example-rows"; }
  std::size_t packed_bytes(const dsv31::MatrixDesc& m) const override {
    return (row_bytes(m) * static_cast<std::size_t>(m.rows) + 63) / 64 * 64;
  }
  void pack(const dsv31::MatrixDesc& m, std::int64_t row_begin, std::int64_t row_end, const std::byte* src,
            std::byte* packed) const override {
    std::memcpy(packed + static_cast<std::size_t>(row_begin) * row_bytes(m), src,
                static_cast<std::size_t>(row_end - row_begin) * row_bytes(m));
  }
  void unpack(const dsv31::MatrixDesc& m, std::int64_t row_begin, std::int64_t row_end, const std::byte* packed,
              std::byte* dst) const override {
    std::memcpy(dst, packed + static_cast<std::size_t>(row_begin) * row_bytes(m),
                static_cast<std::size_t>(row_end - row_begin) * row_bytes(m));
  }
  std::unique_ptr<dsv31::PreparedOp> prepare(const dsv31::Op& op, const dsv31::PrepareContext& context) const override {
    return std::make_unique<LinearRows>(std::get<dsv31::Linear>(op), context, products_);
  }

  std::int64_t products() const { return products_.load(std::memory_order_relaxed); }

 private:
  static std::size_t row_bytes(const dsv31::MatrixDesc& m) {
    return static_cast<std::size_t>(dsv31::format_bytes(m.type, m.cols));
  }
  mutable std::atomic<std::int64_t> products_{0};
};

}  // namespace rows
