#include "backends/cpu/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsv31/error.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1::cpu {

Matrix bind(const OpContext& context, MatrixId id, bool exact) {
  const PackedMatrix& w = context.prepare.matrices[id];
  const Numerics& numerics = context.prepare.numerics;
  const MatmulKernel* kernel = nullptr;
  if (numerics.relaxed && !exact && context.kernels.relaxed != nullptr)
    kernel = context.kernels.relaxed(w.desc.type, context.isa);
  if (kernel == nullptr) kernel = context.kernels.kernel(w.desc.type, context.isa, exact || numerics.exact);
  if (kernel == nullptr)
    throw Error{
        Code::unsupported, "cpu.prepare",
        fmt::format("got a matrix of type {}, expected one that this backend has a kernel for", format(w.desc.type).name)};
  return {w, kernel};
}

const float* vector_of(const PrepareContext& context, VectorId id) {
  return id == kNone || context.vectors == nullptr ? nullptr : context.vectors[id];
}

CpuOp::CpuOp(const OpContext& context) : rows_(&row_kernels(context.isa)), kernel_(simd::isa_name(context.isa)) {}

void CpuOp::use(const Matrix& m) {
  const std::string name = std::string(" ") + m.kernel->name;
  if ((kernel_ + " ").find(name + " ") == std::string::npos) kernel_ += name;
}

std::size_t CpuOp::scratch_bytes(std::int64_t max_rows, int max_workers) const {
  const auto bytes = [&](std::int64_t n) {
    Area shared, own;
    measure(shared, own, n);
    return shared.used() + own.used() * static_cast<std::size_t>(max_workers);
  };
  return std::max(bytes(std::min(max_rows, few())), bytes(max_rows));
}

void CpuOp::store_sum(const RunContext& c, ValueId residual, const float* y, ValueId out, std::int64_t features, std::int64_t r,
                      std::int64_t column, std::int64_t width) const {
  float* to = c.row(out, r, features) + column;
  if (residual == kNone)
    std::copy_n(y, width, to);
  else
    rows_->add(c.row(residual, r, features) + column, y, width, to);
}

CpuOp::Areas CpuOp::areas(const RunContext& c, std::int64_t n) const {
  Area shared, own;
  measure(shared, own, n);
  return {Area{c.scratch}, Area{c.scratch + shared.used() + own.used() * static_cast<std::size_t>(c.worker)}};
}

}  // namespace dsv31::inline v1::cpu
