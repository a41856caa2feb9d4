#include "lib/sched/source_op.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

#include "dsv31/quant.h"

namespace dsv31::inline v1::sched {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

constexpr std::int64_t kPanelRows = 128;  // rows of a panel: those of a scale block
constexpr std::int64_t kPanels = 8;       // of a matrix that is not taken whole

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t panels(std::int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

// Panels of a matrix of `rows` rows, spread, the last one among them, in other places for another op.
Ranges spread_panels(std::int64_t rows, std::size_t op) {
  const std::int64_t n = panels(rows);
  std::set<std::int64_t> chosen{n - 1};
  for (std::int64_t i = 0; i < std::min(kPanels, n); ++i)
    chosen.insert((static_cast<std::int64_t>(op) + i * n / std::min(kPanels, n)) % n);
  Ranges out;
  for (const std::int64_t p : chosen) out.emplace_back(p * kPanelRows, std::min(rows, (p + 1) * kPanelRows));
  return out;
}
Ranges all_rows(std::int64_t rows) { return {{0, rows}}; }

std::vector<std::int64_t> columns_of(const Ranges& ranges) {
  std::vector<std::int64_t> out;
  for (const auto& [begin, end] : ranges)
    for (std::int64_t c = begin; c < end; ++c) out.push_back(c);
  return out;
}

std::int64_t part_of(const MatrixDesc& d) { return std::min(d.rows, (kPanels + 1) * kPanelRows) * d.cols; }
std::int64_t whole_of(const MatrixDesc& d) { return d.count * d.rows * d.cols; }

}  // namespace

std::int64_t part_weights(const Op& op, const Graph& graph) {
  const auto desc = [&](MatrixId id) { return id == kNone ? MatrixDesc{} : graph.matrices[at(id)]; };
  std::int64_t n = 0;
  if (auto* linear = std::get_if<Linear>(&op)) {
    for (const Linear::Part& p : linear->parts)
      n += linear->post_norm.weight == kNone ? part_of(desc(p.weight)) : whole_of(desc(p.weight));
  } else if (auto* head = std::get_if<Head>(&op)) {
    n = part_of(desc(head->weight));
  } else if (auto* x = std::get_if<Experts>(&op)) {
    for (const MatrixId m : {x->gate, x->up, x->down})
      n += desc(m).rows * desc(m).cols * std::max(kCheckedExperts, x->num_experts_per_tok);
    for (const MatrixId m : {x->shared_gate, x->shared_up, x->shared_down})
      if (m != kNone) n += whole_of(desc(m));
  } else if (!std::holds_alternative<Embed>(op)) {
    for (const MatrixId m : graph::uses(op).matrices) n += whole_of(desc(m));
  }
  return n;
}

std::vector<std::int32_t> checked_experts(const Experts& op, std::int32_t layer) {
  const std::int64_t n = op.n_routed_experts, s = std::min(n, std::max(kCheckedExperts, op.num_experts_per_tok));
  std::vector<std::int32_t> out;
  for (std::int64_t j = 0; j < s; ++j) out.push_back(static_cast<std::int32_t>((7 * std::max(layer, 0) + j * n / s) % n));
  std::sort(out.begin(), out.end());
  return out;
}

MatrixId SourceOp::take_rows(MatrixId id, const Ranges& ranges) {
  if (id == kNone) return kNone;
  const PackedMatrix& from = parts_.weights.matrices[at(id)];
  PackedMatrix to;
  to.desc = from.desc;
  to.desc.rows = 0;
  for (const auto& [begin, end] : ranges) to.desc.rows += end - begin;
  to.stride = parts_.reference->packed_bytes(to.desc);
  Buffer bytes = parts_.accountant->allocate(MemoryClass::scratch, to.stride * at(to.desc.count), "self_check.weights");
  const Backend& packer = *(*parts_.backends)[at(parts_.placement->packer[at(id)])];
  const auto row_bytes = at(format_bytes(from.desc.type, from.desc.cols));
  for (std::int64_t m = 0; m < to.desc.count; ++m) {
    std::byte* dst = bytes.data() + at(m) * to.stride;
    for (const auto& [begin, end] : ranges) {
      packer.unpack(from.desc, begin, end, from.data + at(m) * from.stride, dst);
      dst += at(end - begin) * row_bytes;
    }
  }
  to.data = bytes.data();
  storage_.push_back(std::move(bytes));
  if (from.scales != nullptr) {
    const std::int64_t width = panels(from.desc.cols), height = panels(from.desc.rows);
    std::vector<float> scales;
    for (std::int64_t m = 0; m < to.desc.count; ++m)
      for (const auto& [begin, end] : ranges)
        scales.insert(scales.end(), from.scales + (m * height + begin / kPanelRows) * width,
                      from.scales + (m * height + panels(end)) * width);
    floats_.push_back(std::move(scales));
    to.scales = floats_.back().data();
  }
  matrices_[at(id)] = to;
  return id;
}

MatrixId SourceOp::take_all(MatrixId id) {
  return id == kNone ? kNone : take_rows(id, all_rows(parts_.graph->matrices[at(id)].rows));
}

MatrixId SourceOp::take_stack(MatrixId id, const std::vector<std::int32_t>& indices) {
  const PackedMatrix& from = parts_.weights.matrices[at(id)];
  PackedMatrix to;
  to.desc = from.desc;
  to.desc.count = static_cast<std::int64_t>(indices.size());
  to.stride = parts_.reference->packed_bytes(to.desc);
  Buffer bytes = parts_.accountant->allocate(MemoryClass::scratch, to.stride * indices.size(), "self_check.weights");
  const Backend& packer = *(*parts_.backends)[at(parts_.placement->packer[at(id)])];
  const std::int64_t grid = panels(from.desc.rows) * panels(from.desc.cols);
  std::vector<float> scales;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    packer.unpack(from.desc, 0, from.desc.rows, from.data + at(indices[i]) * from.stride, bytes.data() + i * to.stride);
    if (from.scales != nullptr)
      scales.insert(scales.end(), from.scales + indices[i] * grid, from.scales + (indices[i] + 1) * grid);
  }
  to.data = bytes.data();
  storage_.push_back(std::move(bytes));
  if (from.scales != nullptr) {
    floats_.push_back(std::move(scales));
    to.scales = floats_.back().data();
  }
  matrices_[at(id)] = to;
  return id;
}

VectorId SourceOp::take_columns(VectorId id, const std::vector<std::int64_t>& columns) {
  if (id == kNone) return kNone;
  std::vector<float> chosen;
  for (const std::int64_t c : columns) chosen.push_back(parts_.weights.vectors[at(id)][c]);
  floats_.push_back(std::move(chosen));
  vectors_.push_back(floats_.back().data());
  return static_cast<VectorId>(vectors_.size() - 1);
}

ValueId SourceOp::output(ValueId value, std::vector<std::int64_t> columns, std::int64_t width) {
  slices_.push_back({value, next_value_, width, std::move(columns)});
  return next_value_++;
}

ValueId SourceOp::residual(ValueId value, const std::vector<std::int64_t>& columns) {
  if (value == kNone) return kNone;
  const Rows& from = find(in_.values, value);
  Rows to(in_.rows(), static_cast<std::int64_t>(columns.size()));
  for (std::int64_t r = 0; r < in_.rows(); ++r)
    for (std::size_t c = 0; c < columns.size(); ++c) to.row(r)[c] = from.row(r)[columns[c]];
  in_.values.emplace_back(next_value_, std::move(to));
  return next_value_++;
}

// The rows of the table that the tokens name, in their runs of 16: packing's least unit.
void SourceOp::reduce(Embed& op) {
  const std::int64_t rows = parts_.graph->matrices[at(op.weight)].rows;
  std::set<std::int64_t> runs;
  for (const std::int32_t t : in_.tokens) runs.insert(t / 16);
  Ranges ranges;
  for (const std::int64_t r : runs) ranges.emplace_back(r * 16, std::min(rows, r * 16 + 16));
  take_rows(op.weight, ranges);
  for (std::int32_t& t : in_.tokens) t = static_cast<std::int32_t>(std::distance(runs.begin(), runs.find(t / 16)) * 16 + t % 16);
}

void SourceOp::reduce(Linear& op) {
  std::vector<std::int64_t> columns;
  for (Linear::Part& part : op.parts) {
    const std::int64_t rows = parts_.graph->matrices[at(part.weight)].rows;
    const Ranges ranges = op.post_norm.weight == kNone ? spread_panels(rows, in_.op) : all_rows(rows);
    columns = columns_of(ranges);
    take_rows(part.weight, ranges);
    part.bias = take_columns(part.bias, columns);
    part.out = output(part.out, columns, static_cast<std::int64_t>(columns.size()));
  }
  op.residual = residual(op.residual, columns);
}

void SourceOp::reduce(Gate& op, const std::vector<float>* bias_nudge) {
  take_all(op.weight);
  if (bias_nudge == nullptr) return;
  floats_.push_back(*bias_nudge);
  if (op.bias != kNone)
    for (std::size_t e = 0; e < bias_nudge->size(); ++e) floats_.back()[e] += parts_.weights.vectors[at(op.bias)][e];
  vectors_.push_back(floats_.back().data());
  op.bias = static_cast<VectorId>(vectors_.size() - 1);
}

void SourceOp::reduce(Experts& op) {
  Rows& ids = find(in_.values, op.ids);
  std::set<std::int32_t> used;
  for (std::int64_t r = 0; r < in_.rows(); ++r)
    for (std::int64_t j = 0; j < op.num_experts_per_tok; ++j) used.insert(std::bit_cast<std::int32_t>(ids.row(r)[j]));
  const std::vector<std::int32_t> indices(used.begin(), used.end());
  for (std::int64_t r = 0; r < in_.rows(); ++r)
    for (std::int64_t j = 0; j < op.num_experts_per_tok; ++j) {
      const auto where = std::lower_bound(indices.begin(), indices.end(), std::bit_cast<std::int32_t>(ids.row(r)[j]));
      ids.row(r)[j] = std::bit_cast<float>(static_cast<std::int32_t>(where - indices.begin()));
    }
  op.n_routed_experts = static_cast<std::int64_t>(indices.size());
  for (const MatrixId m : {op.gate, op.up, op.down}) take_stack(m, indices);
  for (const MatrixId m : {op.shared_gate, op.shared_up, op.shared_down}) take_all(m);
}

void SourceOp::reduce(Head& op) {
  const Ranges ranges = spread_panels(parts_.graph->matrices[at(op.weight)].rows, in_.op);
  const auto columns = columns_of(ranges);
  take_rows(op.weight, ranges);
  op.bias = take_columns(op.bias, columns);
  op.out = output(op.out, columns, static_cast<std::int64_t>(columns.size()));
}

SourceOp::SourceOp(const SourceParts& parts, std::size_t op, const OpInputs& in, const std::vector<float>* bias_nudge)
    : parts_(parts), in_(in), op_(parts.graph->ops[op]), next_value_(static_cast<ValueId>(parts.graph->values.size())) {
  const Graph& graph = *parts_.graph;
  matrices_.resize(graph.matrices.size());
  vectors_.assign(parts_.weights.vectors, parts_.weights.vectors + graph.vector_widths.size());
  if (auto* embed = std::get_if<Embed>(&op_))
    reduce(*embed);
  else if (auto* linear = std::get_if<Linear>(&op_))
    reduce(*linear);
  else if (auto* gate = std::get_if<Gate>(&op_))
    reduce(*gate, bias_nudge);
  else if (auto* experts = std::get_if<Experts>(&op_))
    reduce(*experts);
  else if (auto* head = std::get_if<Head>(&op_))
    reduce(*head);
  else
    for (const MatrixId m : graph::uses(op_).matrices) take_all(m);
  if (slices_.empty())
    for (const auto& [id, width] : writes_of(op_, graph)) slices_.push_back({id, id, width, {}});
}

OpOutputs SourceOp::run(Team* team) const {
  PrepareContext context{parts_.graph, matrices_.data(), vectors_.data(), parts_.numerics, parts_.cache_type};
  std::vector<std::pair<ValueId, std::int64_t>> writes;
  for (const Slice& s : slices_) writes.emplace_back(s.made, s.width);
  return run_alone(*parts_.reference->prepare(op_, context), in_, writes, team);
}

}  // namespace dsv31::inline v1::sched
