// The input rows of an op in every form that its kernels want: normalised, in float32, and as int8 with a scale a group.
//
// A step of few rows builds them in each worker's own scratch, all workers the same: that costs less than a barrier. Otherwise
// the rows are shared out in a phase of their own. Both run the same code on a row, so the bits do not depend on which it was.
#pragma once

#include "backends/cpu/area.h"
#include "backends/cpu/kernels.h"

namespace dsv31::inline v1::cpu {

// A step of at most this many rows of `cols` elements lets every worker build all of them.
constexpr std::int64_t few_rows(std::int64_t cols) { return cols < 8192 ? 8192 / cols : 1; }

// Rows of one form, (rows, cols), in the area.
Activations place_activations(Area& area, Form form, std::int64_t rows, std::int64_t cols);
// The same from `row` on.
Activations rows_from(Activations a, std::int64_t row);
// Columns [k_begin, k_begin + n) of a row from x (n); k_begin is a multiple of kGroup, and the range ends at one or at
// the last column. f32: copies.
void fill_columns(const RowKernels& kernels, const Activations& to, std::int64_t row, std::int64_t k_begin, const float* x,
                  std::int64_t n);

// Int8 rows in two planes: row 2i is the row as usual, row 2i + 1 what its rounding left, in the same form. The products of both
// added are as exact as 15-bit activations, from the same kernels. It is for the two places where rounding costs most, as
// measured by the divergence of the output from exact arithmetic: the head, whose errors go straight into the logits, and `down`
// after a gelu. Float rows need one plane.
constexpr std::int64_t planes(Form form) { return form == Form::f32 ? 1 : 2; }
// fill_columns for planes(form) rows from planes(form) * row on. rest (n) is scratch and may be x.
void fill_planes(const RowKernels& kernels, const Activations& to, std::int64_t row, std::int64_t k_begin, const float* x,
                 std::int64_t n, float* rest);

// Rows in several forms; those not wanted have no data.
struct Inputs {
  Activations forms[2];
  const Activations& of(Form form) const { return forms[static_cast<int>(form)]; }
  Activations& of(Form form) { return forms[static_cast<int>(form)]; }
};

// Where the rows come from: row i is row rows[i] of a value, or row i where rows is null.
struct RowSource {
  ValueId x = kNone;
  const std::int32_t* rows = nullptr;
};

class Prologue {
 public:
  struct Options {
    bool gathered = false;     // run() and inputs() get a list of rows: row i of the op is not row i of the value
    bool planes = false;       // int8 rows are wanted in two planes
    bool overwritten = false;  // the op writes over x in the phase that needs the rows: they are built before, however few
  };
  Prologue(const PrepareContext& context, const Norm& norm, std::int64_t cols, Isa isa, Options options);
  void want(Form form) { wanted_[static_cast<int>(form)] = true; }

  std::int64_t cols() const { return cols_; }
  // True where a step of n rows needs a phase of its own for them.
  bool shared(std::int64_t n) const { return !trivial() && n > few(); }
  std::int64_t few() const { return options_.overwritten ? 0 : few_rows(cols_); }

  struct Place {
    Inputs in;
    float* row = nullptr;   // (cols): the normalised row where no form keeps it
    float* rest = nullptr;  // (cols): with planes
  };
  // Memory for n rows: in the workers' shared area, or in this worker's own.
  Place place(Area& shared, Area& own, std::int64_t n) const;
  // The phase of shared(n).
  void run(const RunContext& c, const Place& place, std::int64_t n, RowSource from) const;
  // To be called by every worker before it uses the rows: builds them unless shared(n).
  Inputs inputs(const RunContext& c, const Place& place, std::int64_t n, RowSource from) const;

 private:
  bool normed() const { return weight_id_ != kNone; }
  // Whether float rows differ from the value's own.
  bool keeps_float() const { return wanted_[0] && (normed() || options_.gathered || options_.overwritten); }
  // The value itself is the only form.
  bool trivial() const { return !keeps_float() && !wanted_[1]; }
  void build(const RunContext& c, const Place& place, std::int64_t i, RowSource from) const;

  const RowKernels* kernels_;
  std::int64_t cols_;
  VectorId weight_id_;
  const float* weight_;  // (cols) or null
  float eps_;
  Options options_;
  bool wanted_[2] = {};
};

}  // namespace dsv31::inline v1::cpu
