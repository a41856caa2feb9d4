// The parts of Model::self_check(). Each adds its rows to the report; none touches a session of the host.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dsv31/self_check.h"
#include "lib/api/model_impl.h"
#include "lib/sched/op_probe.h"

namespace dsv31::inline v1 {

struct SelfCheck {
  const Model& model;
  const SelfCheckOptions& options;
  SelfCheckReport& report;
  std::vector<Token> tokens;  // the prompt

  const Model::Impl& impl() const { return *model.impl(); }
  const Graph& graph() const { return model.impl()->spec.graph; }
  sched::Team& team() const { return model.impl()->runtime.impl()->team; }
  const sched::BackendList& backends() const { return model.impl()->runtime.impl()->backends; }
  void check_cancel() const;  // throws cancelled
};

inline const char* arithmetic(Numerics n) { return n.exact ? "exact" : "fast"; }
// `n` ids spread over the vocabulary, the same everywhere.
std::vector<Token> spread_tokens(std::int64_t n, std::int64_t salt, std::int64_t vocab_size);

void check_weights(SelfCheck& check);  // checksums
void check_kernels(SelfCheck& check);  // every op against the reference
void check_ways(SelfCheck& check);     // chunks, threads, batch and cache: the same bits
void check_forms(SelfCheck& check);    // expanded against absorbed, sparse against dense attention

// A timeline of its own in arithmetic of its own, whose last rows are computed an op at a time.
class OpWalk {
 public:
  OpWalk(const SelfCheck& check, Numerics numerics);
  ~OpWalk();
  OpWalk(const OpWalk&) = delete;

  const sched::Program& program() const { return lane_.program; }
  // The program of another arithmetic, over the same weights.
  const sched::Program& program(Numerics numerics) { return engine_.lane(numerics).program; }
  void prefill(std::span<const Token> tokens);
  // before(op, its inputs' capture): false ends.
  using Before = std::function<bool(std::size_t op, const std::function<sched::OpInputs()>& capture)>;
  void visit(std::span<const Token> tokens, const Before& before);

 private:
  const SelfCheck& check_;
  session::Engine engine_;
  session::Lane& lane_;
  session::Timeline timeline_;
};

// Of numbers against those of the reference, or of another form of the same op.
struct Closeness {
  double error = 0, size = 0, got = 0, dot = 0;  // sums of squares; of products

  // allowed: of the difference, that storing the number may make.
  void add(double got, double want, double residual, double allowed);
  double nmse() const;
  double cosine() const;
};

}  // namespace dsv31::inline v1
