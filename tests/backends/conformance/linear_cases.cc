#include <fmt/format.h>

#include "tests/backends/conformance/cases.h"

namespace conformance {
namespace {

struct Shape {
  std::int64_t n, in, out;
};

std::string shape_name(const Shape& s) { return fmt::format("{}x{}->{}", s.n, s.in, s.out); }

OpCase plain(DType type, Shape s) {
  s.in = fit(type, s.in);
  CaseBuilder b(fmt::format("linear {} {}", type_name(type), shape_name(s)), {{0, s.n}});
  Linear op;
  op.x = b.input(s.in);
  op.parts = {{b.matrix(type, 1, s.out, s.in), kNone, b.output(s.out)}};
  return b.finish(op, static_cast<double>(s.in));
}

// Norm, bias, post norm and residual together, in place.
OpCase full(DType type, Shape s, bool block_scales = false) {
  s.in = fit(type, s.in);
  CaseBuilder b(fmt::format("linear full {}{} {}", type_name(type), block_scales ? " block scales" : "", shape_name(s)),
                {{0, s.n}});
  Linear op;
  op.x = b.input(s.in, 3);
  op.norm = b.norm(s.in);
  op.post_norm = b.norm(s.out, 0.3f);
  op.residual = b.inout(b.input(s.out));
  op.parts = {{b.matrix(type, 1, s.out, s.in, block_scales), b.vector(s.out), op.residual}};
  b.residual(op.residual);
  return b.finish(op, static_cast<double>(2 * s.in + s.out));
}

}  // namespace

void add_linear_cases(std::vector<OpCase>& cases) {
  for (const DType type : weight_types()) {
    for (const Shape s :
         {Shape{1, 96, 64}, Shape{1, 512, 37}, Shape{3, 160, 17}, Shape{5, 256, 130}, Shape{17, 288, 48}, Shape{2, 800, 16}})
      cases.push_back(plain(type, s));
    cases.push_back(full(type, {1, 256, 70}));
    cases.push_back(full(type, {6, 352, 33}));
  }
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2})
    for (const Shape s :
         {Shape{1, 1, 1}, Shape{2, 7, 3}, Shape{4, 33, 15}, Shape{9, 129, 65}, Shape{33, 130, 16}, Shape{70, 64, 20}})
      cases.push_back(plain(type, s));
  for (const Shape s : {Shape{1, 130, 129}, Shape{3, 300, 40}, Shape{2, 128, 300}, Shape{5, 257, 257}})
    cases.push_back(full(DType::f8_e4m3, s, true));
  for (const DType type : {DType::f32, DType::q4_0, DType::q8_0, DType::q4_k, DType::q6_k}) {
    const std::int64_t in = fit(type, 320);
    CaseBuilder b(fmt::format("linear three parts {}", type_name(type)), {{3, 2}, {0, 3}, {70, 1}});
    Linear op;
    op.x = b.input(in);
    op.norm = b.norm(in);
    op.parts = {{b.matrix(type, 1, 80, in), b.vector(80), b.output(80)},
                {b.matrix(type, 1, 24, in), kNone, b.output(24)},
                {b.matrix(DType::q8_0, 1, 24, in), b.vector(24), b.output(24)}};
    cases.push_back(b.finish(op, static_cast<double>(2 * in)));
  }
  {
    CaseBuilder b("linear two parts of different formats", {{0, 4}});
    Linear op;
    op.x = b.input(256);
    op.parts = {{b.matrix(DType::q4_k, 1, 40, 256), kNone, b.output(40)},
                {b.matrix(DType::f16, 1, 20, 256), kNone, b.output(20)}};
    cases.push_back(b.finish(op, 256));
  }
  {
    CaseBuilder b("linear of a row of zeros", {{0, 2}});
    std::vector<float> x(128, 0);
    for (std::size_t i = 64; i < 128; ++i) x[i] = static_cast<float>(i);
    Linear op;
    op.x = b.input_of(64, x);
    op.norm = b.norm(64);
    op.parts = {{b.matrix(DType::q8_0, 1, 20, 64), b.vector(20), b.output(20)}};
    cases.push_back(b.finish(op, 128));
  }
}

}  // namespace conformance
