// Backends of the host's own, given to the runtime.
#include "dsv31/backend.h"

#include <atomic>
#include <stdexcept>

#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

// What the host's backend does of its own: count, and fail where it is told to.
struct Record {
  std::atomic<int> runs{0};
  std::atomic<bool> failing{false};
};

class HostOp final : public PreparedOp {
 public:
  HostOp(std::unique_ptr<PreparedOp> op, Record& record) : op_(std::move(op)), record_(record) {}
  std::size_t scratch_bytes(std::int64_t rows, int workers) const override { return op_->scratch_bytes(rows, workers); }
  int phases(const Step& step) const override { return op_->phases(step); }
  std::string kernel() const override { return "host-" + op_->kernel(); }
  void run(int phase, const RunContext& context) const override {
    ++record_.runs;
    if (record_.failing && context.worker == context.workers - 1) throw std::runtime_error("the host's device is gone");
    op_->run(phase, context);
  }

 private:
  std::unique_ptr<PreparedOp> op_;
  Record& record_;
};

// The plain loops under another name; likes all ops, or those of one kind, as much as it is told to.
class HostBackend final : public Backend {
 public:
  explicit HostBackend(int affinity, std::string name = "host", std::string only = {})
      : affinity_(affinity), name_(std::move(name)), only_(std::move(only)) {}

  std::string_view name() const override { return name_; }
  bool supports(const Op& op, const Graph& graph, Numerics numerics) const override {
    return (only_.empty() || only_ == op_name(op)) && plain_->supports(op, graph, numerics);
  }
  int affinity(const Op&, const Graph&, Numerics) const override { return affinity_; }
  std::string_view layout() const override { return "host"; }
  std::size_t packed_bytes(const MatrixDesc& m) const override { return plain_->packed_bytes(m); }
  void pack(const MatrixDesc& m, std::int64_t begin, std::int64_t end, const std::byte* from, std::byte* to) const override {
    plain_->pack(m, begin, end, from, to);
  }
  void unpack(const MatrixDesc& m, std::int64_t begin, std::int64_t end, const std::byte* from, std::byte* to) const override {
    plain_->unpack(m, begin, end, from, to);
  }
  std::unique_ptr<PreparedOp> prepare(const Op& op, const PrepareContext& context) const override {
    return std::make_unique<HostOp>(plain_->prepare(op, context), record_);
  }

  Record& record() const { return record_; }

 private:
  std::unique_ptr<Backend> plain_ = make_reference_backend();
  int affinity_;
  std::string name_, only_;
  mutable Record record_;
};

Runtime runtime_of(std::vector<std::shared_ptr<const Backend>> backends, int threads = 2) {
  RuntimeOptions o;
  o.threads = threads;
  o.backends = std::move(backends);
  return Runtime(o);
}

// How many ops of the model a backend runs.
int ops_on(const Model& model, std::string_view backend) {
  int n = 0;
  for (const PlanRow& row : model.execution_plan()) n += row.backend == backend;
  return n;
}

constexpr int kBuiltin = 10;  // how well the built-in backends like their ops

}  // namespace

TEST_CASE("a host's backend runs what it likes best, with the bits of its own code") {
  const auto ids = made_tokens(20, 1, 320);
  const auto host = std::make_shared<const HostBackend>(kBuiltin + 1);
  const Model model = Model::open(runtime_of({host}), random_model("llama"));
  CHECK(ops_on(model, "host") == static_cast<int>(model.execution_plan().size()));
  const Model plain = Model::open(runtime_with(2, {}, "reference"), random_model("llama"));
  CHECK(same_bits(all_logits(model, ids, {}), all_logits(plain, ids, {})));
  CHECK(host->record().runs > 0);
}

TEST_CASE("ops that the host's backend does not support go to the built-in ones") {
  const auto ids = made_tokens(20, 1, 320);
  const auto host = std::make_shared<const HostBackend>(kBuiltin + 1, "host", "linear");
  const Model model = Model::open(runtime_of({host}), random_model("llama"));
  for (const PlanRow& row : model.execution_plan()) {
    CHECK((row.backend == "host") == (row.op == "linear"));
    CHECK((row.kernel.rfind("host-", 0) == 0) == (row.op == "linear"));
  }
  const Model builtin = Model::open(runtime_with(2), random_model("llama"));
  const auto got = all_logits(model, ids, {.exact = true}), want = all_logits(builtin, ids, {.exact = true});
  CHECK(max_difference(got, want) <= 1e-4 * max_abs(want));
  CHECK(host->record().runs > 0);
}

TEST_CASE("where two like an op the same the host's own comes first, in the host's order") {
  const auto a = std::make_shared<const HostBackend>(kBuiltin, "a"), b = std::make_shared<const HostBackend>(kBuiltin, "b");
  const Model model = Model::open(runtime_of({a, b}), random_model("llama"));
  CHECK(ops_on(model, "a") == static_cast<int>(model.execution_plan().size()));
  const auto shy = std::make_shared<const HostBackend>(kBuiltin - 1);
  CHECK(ops_on(Model::open(runtime_of({shy}), random_model("llama")), "host") == 0);
}

TEST_CASE("the host's backend can be asked for by name") {
  RuntimeOptions o;
  o.backends = {std::make_shared<const HostBackend>(-1)};
  o.backend = "host";
  o.strict = true;
  const Model model = Model::open(Runtime(o), random_model("llama"));
  CHECK(ops_on(model, "host") == static_cast<int>(model.execution_plan().size()));
}

TEST_CASE("a name that another backend has, or no backend at all, is an argument") {
  for (const char* name : {"reference", "cpu", "quantized"})
    expect_error(Code::argument, {"runtime.backends", name}, [&] { runtime_of({std::make_shared<const HostBackend>(1, name)}); });
  const auto host = std::make_shared<const HostBackend>(1);
  expect_error(Code::argument, {"runtime.backends", "host"}, [&] { runtime_of({host, host}); });
  expect_error(Code::argument, {"runtime.backends", "null"}, [&] { runtime_of({nullptr}); });
}

TEST_CASE("a backend that throws ends the step; the session and the runtime stay usable") {
  const auto ids = made_tokens(20, 1, 320), more = made_tokens(7, 2, 320);
  const auto host = std::make_shared<const HostBackend>(kBuiltin + 1, "host", "linear");
  for (int threads : {1, 3}) {
    const Model model = Model::open(runtime_of({host}, threads), random_model("llama"));
    Session undisturbed(model);
    undisturbed.append(ids);
    undisturbed.append(more);
    Session s(model);
    s.append(ids);
    host->record().failing = true;
    CHECK_THROWS_AS(s.append(more), std::runtime_error);
    CHECK(s.size() == 20);
    host->record().failing = false;
    s.append(more);
    CHECK(same_bits(s.logits(), undisturbed.logits()));
  }
}

TEST_CASE("a model keeps the host's backends that it needs") {
  std::weak_ptr<const HostBackend> seen;
  {
    auto host = std::make_shared<const HostBackend>(kBuiltin + 1);
    seen = host;
    const Model model = Model::open(runtime_of({std::move(host)}), random_model("llama"));
    Session s(model);
    s.append(made_tokens(20, 1, 320));
    CHECK_FALSE(seen.expired());
  }
  CHECK(seen.expired());
}
