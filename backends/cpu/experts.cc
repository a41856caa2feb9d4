// out = residual + (sum over the row's experts e, ascending, of w_e E_e(norm(x)) + E_shared(norm(x))), E(x) = down
// (activation(gate x) * up x).
//
// Phases: the input rows and their sorting by expert, where the rows are many (else each worker does both for itself); one list
// of items over the panels of all gated units in use; down. An item of down is a panel of output columns: its worker adds up all
// experts there, in ascending id, the shared one last, so that no sum crosses workers and no order depends on them.
#include <algorithm>
#include <optional>

#include "backends/cpu/gated_unit.h"
#include "backends/cpu/ops.h"
#include "backends/cpu/routing.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kBlockRows = 512;  // rows of a down item: its sums stay in the second-level cache
constexpr std::int64_t kPanelWidth = kPanelStrips * kStrip;

class ExpertsOp final : public CpuOp {
 public:
  ExpertsOp(const Experts& op, const OpContext& context)
      : CpuOp(context),
        op_(op),
        routed_(context, {.gate = op.gate, .up = op.up, .down = op.down, .activation = op.activation}),
        prologue_(context.prepare, op.norm, routed_.gate().w.desc.cols, context.isa, {}) {
    add(routed_);
    if (op.shared_gate == kNone) return;
    shared_.emplace(
        context,
        GatedUnit::Weights{.gate = op.shared_gate, .up = op.shared_up, .down = op.shared_down, .activation = op.activation});
    add(*shared_);
  }

  int phases(const Step& step) const override { return many(step.rows()) + 2; }
  void run(int phase, const RunContext& c) const override {
    const std::int64_t n = c.step->rows();
    Areas area = areas(c, n);
    const Scratch s = place(area.shared, area.own, n);
    if (!many(n)) ++phase;
    if (phase == 0) {
      if (c.worker == 0) s.routing.sort(c, op_);
      if (prologue_.shared(n)) prologue_.run(c, s.prologue, n, {op_.x});
    } else if (phase == 1) {
      gated(c, s, n);
    } else {
      down(c, s, n);
    }
  }

 private:
  struct Scratch {
    Prologue::Place prologue;
    Routing routing;
    Activations hidden;         // (slots, moe_intermediate_size)
    Activations shared_hidden;  // (n, n_shared_experts * moe_intermediate_size)
    GatedUnit::Tiles tiles;
    float* y;    // (planes * chunk, panel): what one expert makes
    float* sum;  // (block, panel)
    std::byte* kernel;
  };

  void add(const GatedUnit& unit) {
    prologue_.want(unit.gate().kernel->form);
    prologue_.want(unit.up().kernel->form);
    kernel_scratch_ = std::max(kernel_scratch_, unit.scratch_bytes());
    for (const Matrix* m : {&unit.gate(), &unit.up(), &unit.down()}) use(*m);
  }
  bool many(std::int64_t n) const { return n > few(); }
  std::int64_t hidden_size() const { return routed_.down().w.desc.rows; }
  std::int64_t chunk() const { return std::min(chunk_rows(prologue_.cols()), chunk_rows(routed_.width())); }
  std::int64_t few() const override { return prologue_.few(); }
  void measure(Area& shared, Area& own, std::int64_t n) const override { place(shared, own, n); }
  Scratch place(Area& shared, Area& own, std::int64_t n) const {
    Scratch s{};
    s.prologue = prologue_.place(shared, own, n);
    s.routing = Routing::place(many(n) ? shared : own, n, op_);
    s.hidden = routed_.place_hidden(shared, n * op_.num_experts_per_tok);
    if (shared_) s.shared_hidden = shared_->place_hidden(shared, n);
    s.tiles = routed_.place_tiles(own, n);
    s.y = own.take<float>(std::max(routed_.planes(), shared_ ? shared_->planes() : 1) * std::min(n, chunk()) * kPanelWidth);
    s.sum = own.take<float>(std::min(n, kBlockRows) * kPanelWidth);
    s.kernel = own.take<std::byte>(static_cast<std::int64_t>(kernel_scratch_));
    return s;
  }

  void gated(const RunContext& c, const Scratch& s, std::int64_t n) const {
    const Inputs in = prologue_.inputs(c, s.prologue, n, {op_.x});
    if (!many(n)) s.routing.sort(c, op_);
    std::int64_t i = c.take(1), first = 0;
    const auto run_items = [&](const GatedUnit& unit, const Cut& cut, GatedUnit::Panel panel, const std::int32_t* rows,
                               std::int64_t hidden) {
      for (; i < first + cut.items() && !c.stopped(); i = c.take(1)) {
        const Cut::Item item = cut.item(i - first);
        panel.strip_begin = item.strip_begin;
        panel.strip_end = item.strip_end;
        panel.in_row = item.row_begin;
        panel.rows = rows == nullptr ? nullptr : rows + item.row_begin;
        panel.m = item.row_end - item.row_begin;
        panel.hidden_row = hidden + item.row_begin;
        unit.run(panel, s.tiles, s.kernel);
      }
      first += cut.items();
    };
    const std::int64_t units = s.routing.experts() + (shared_ ? 1 : 0);
    if (shared_) run_items(*shared_, shared_->cut(n, units, c.workers), {.in = &in, .hidden = &s.shared_hidden}, nullptr, 0);
    for (std::int32_t a = 0; a < s.routing.experts() && !c.stopped(); ++a) {
      const std::int64_t slot = s.routing.begin[a], m = s.routing.begin[a + 1] - slot;
      run_items(routed_, routed_.cut(m, units, c.workers), {.index = s.routing.active[a], .in = &in, .hidden = &s.hidden},
                s.routing.row + slot, slot);
    }
  }

  void down(const RunContext& c, const Scratch& s, std::int64_t n) const {
    const std::int64_t strips = routed_.down().strips();
    const Cut cut = {strips, item_strips(strips, c.workers), n, kBlockRows};
    for (std::int64_t i = c.take(1); i < cut.items() && !c.stopped(); i = c.take(1)) down_item(c, s, cut.item(i));
  }

  void down_item(const RunContext& c, const Scratch& s, const Cut::Item& item) const {
    const std::int64_t column = item.strip_begin * kStrip, width = width_of(hidden_size(), item.strip_begin, item.strip_end);
    std::fill_n(s.sum, (item.row_end - item.row_begin) * kPanelWidth, 0.0f);
    const Routing& routing = s.routing;
    for (std::int32_t a = 0; a < routing.experts(); ++a) {
      // Inside an expert rows ascend: those of this item are one run of slots.
      const std::int32_t* end = routing.row + routing.begin[a + 1];
      const std::int32_t* from =
          std::lower_bound<const std::int32_t*>(routing.row + routing.begin[a], end, static_cast<std::int32_t>(item.row_begin));
      const std::int32_t* to = std::lower_bound(from, end, static_cast<std::int32_t>(item.row_end));
      for (std::int64_t slot = from - routing.row; slot < to - routing.row; slot += chunk()) {
        if (c.stopped()) return;
        const std::int64_t m = std::min(chunk(), (to - routing.row) - slot);
        multiply(s, routed_, routing.active[a], item, s.hidden, slot, m);
        for (std::int64_t j = 0; j < m; ++j)
          rows().add_scaled(routing.weight[slot + j], s.y + j * kPanelWidth, width,
                            s.sum + (routing.row[slot + j] - item.row_begin) * kPanelWidth);
      }
    }
    for (std::int64_t r = item.row_begin; shared_ && r < item.row_end; r += chunk()) {
      if (c.stopped()) return;
      const std::int64_t m = std::min(chunk(), item.row_end - r);
      multiply(s, *shared_, 0, item, s.shared_hidden, r, m);
      for (std::int64_t j = 0; j < m; ++j) {
        float* sum = s.sum + (r - item.row_begin + j) * kPanelWidth;
        rows().add(sum, s.y + j * kPanelWidth, width, sum);
      }
    }
    for (std::int64_t r = item.row_begin; r < item.row_end; ++r)
      store_sum(c, op_.residual, s.sum + (r - item.row_begin) * kPanelWidth, op_.out, hidden_size(), r, column, width);
  }

  // y (m, panel) = rows [row, row + m) of hidden times the item's strips of one expert's down.
  void multiply(const Scratch& s, const GatedUnit& unit, std::int64_t index, const Cut::Item& item, const Activations& hidden,
                std::int64_t row, std::int64_t m) const {
    const Matrix& w = unit.down();
    const std::int64_t planes = unit.planes();
    const Activations h = rows_from(hidden, row * planes);
    w.kernel->run({.w = &w.w,
                   .index = index,
                   .strip_begin = item.strip_begin,
                   .strip_end = item.strip_end,
                   .x = &h,
                   .m = m * planes,
                   .out = s.y,
                   .ld = kPanelWidth,
                   .scratch = s.kernel});
    for (std::int64_t j = 0; planes == 2 && j < m; ++j)
      rows().add(s.y + 2 * j * kPanelWidth, s.y + (2 * j + 1) * kPanelWidth, kPanelWidth, s.y + j * kPanelWidth);
  }

  Experts op_;
  GatedUnit routed_;
  std::optional<GatedUnit> shared_;
  Prologue prologue_;
  std::size_t kernel_scratch_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_experts(const Experts& op, const PrepareContext& context, const KernelTable& kernels,
                                            Isa isa) {
  return std::make_unique<ExpertsOp>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
