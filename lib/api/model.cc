#include "dsv31/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dsv31/quant.h"
#include "lib/api/model_impl.h"
#include "lib/io/checksum.h"
#include "lib/io/packed.h"
#include "lib/text/tokenizer_factory.h"

namespace dsv31::inline v1 {
namespace {

std::uint64_t source_bytes(const MatrixDesc& d) {
  return static_cast<std::uint64_t>(format_bytes(d.type, d.cols) * d.rows * d.count);
}

// Bytes of the weights that one token touches: all but the embedding (one row of it), and of the experts those that are chosen.
std::uint64_t active_bytes(const Graph& g) {
  std::vector<double> share(g.matrices.size(), 1);
  std::vector<bool> only_looked_up(g.matrices.size(), false);
  for (const Op& op : g.ops) {
    if (auto* e = std::get_if<Embed>(&op)) only_looked_up[static_cast<std::size_t>(e->weight)] = true;
    if (auto* h = std::get_if<Head>(&op)) only_looked_up[static_cast<std::size_t>(h->weight)] = false;
    if (auto* x = std::get_if<Experts>(&op))
      for (MatrixId m : {x->gate, x->up, x->down})
        share[static_cast<std::size_t>(m)] =
            static_cast<double>(x->num_experts_per_tok) / static_cast<double>(x->n_routed_experts);
  }
  std::vector<bool> trunk(g.matrices.size(), false);
  for (std::size_t i = 0; i < g.trunk_end(); ++i)
    for (MatrixId m : graph::uses(g.ops[i]).matrices) trunk[static_cast<std::size_t>(m)] = true;
  double sum = 0;
  for (std::size_t m = 0; m < g.matrices.size(); ++m)
    if (trunk[m] && !only_looked_up[m]) sum += share[m] * static_cast<double>(source_bytes(g.matrices[m]));
  return static_cast<std::uint64_t>(sum);
}

std::uint64_t cache_bytes_per_token(const Graph& g, std::uint64_t element) {
  std::uint64_t sum = 0;
  for (const CacheDesc& c : g.caches) sum += static_cast<std::uint64_t>(c.width()) * element;
  return sum;
}

ModelInfo describe(const io::Checkpoint& checkpoint, const model::ModelSpec& spec, const sched::WeightStore& weights) {
  const model::Config& c = spec.config;
  ModelInfo out;
  out.architecture = c.model_type;
  if (checkpoint.kind == io::Checkpoint::Kind::gguf && checkpoint.metadata.has("general.name"))
    out.name = checkpoint.metadata.string("general.name");
  out.num_hidden_layers = c.num_hidden_layers;
  out.hidden_size = c.hidden_size;
  out.num_attention_heads = c.num_attention_heads;
  out.num_key_value_heads = c.num_key_value_heads;
  out.vocab_size = spec.graph.vocab_size;
  out.context_length = spec.graph.context_length;
  out.n_routed_experts = c.n_routed_experts;
  out.num_experts_per_tok = c.num_experts_per_tok;
  std::set<std::string_view> extra(spec.extra_tensors.begin(), spec.extra_tensors.end());
  for (const io::TensorInfo& t : checkpoint.tensors) {
    if (extra.count(t.name)) continue;
    TensorSummary s{t.name, std::string(format(t.type).name), {}, t.bytes};
    std::uint64_t elements = 1;
    for (int i = 0; i < t.shape.rank; ++i) {
      s.shape.push_back(t.shape[i]);
      elements *= static_cast<std::uint64_t>(t.shape[i]);
    }
    out.parameters += elements;
    out.weight_bytes += t.bytes;
    out.tensors.push_back(std::move(s));
  }
  out.packed_bytes = weights.bytes();
  if (checkpoint.packed != nullptr) out.source_hash = io::checksum_text(checkpoint.packed->source_hash);
  out.active_bytes = active_bytes(spec.graph);
  out.cache_bytes_per_token = cache_bytes_per_token(spec.graph, 2);
  out.extra_tensors = spec.extra_tensors;
  out.warnings = checkpoint.warnings;
  out.warnings.insert(out.warnings.end(), spec.warnings.begin(), spec.warnings.end());
  return out;
}

// Bytes of one session: whole slabs of the full-attention layers for its context, and of the window layers for what they keep.
std::uint64_t cache_bytes(const Graph& g, const ComputeOptions& compute) {
  const std::uint64_t element = compute.exact ? 4 : 2;
  const std::int64_t context = context_of(g, compute), slab = kBlock * session::CachePool::kSlabBlocks;
  std::uint64_t sum = 0;
  for (const CacheDesc& c : g.caches) {
    std::int64_t tokens = c.window > 0 ? std::min(context, c.window + compute.chunk + 8 * kBlock) : context;
    std::uint64_t width = static_cast<std::uint64_t>(c.width());
    sum += width * element * static_cast<std::uint64_t>((tokens + slab - 1) / slab * slab);
  }
  return sum;
}

MemoryPlan sum_up(const sched::WeightStore& store, std::uint64_t cache, std::uint64_t scratch) {
  const std::uint64_t weights = store.bytes() - store.mapped_bytes();
  return {weights, cache, scratch, weights + cache + scratch, store.mapped_bytes()};
}

// A packed file has its layouts already.
sched::Placement place(const io::Checkpoint& checkpoint, const Graph& graph, const Runtime::Impl& r) {
  if (checkpoint.packed == nullptr) return sched::place(graph, r.backends, {}, r.preference());
  const auto layouts = sched::packed_layouts(*checkpoint.packed, graph.matrices.size(), r.backends);
  return sched::place(graph, r.backends, {}, r.preference(), &layouts);
}

std::shared_ptr<Model::Impl> build(const Runtime& runtime, io::Checkpoint checkpoint, const ModelOptions& options) {
  auto impl = std::make_shared<Model::Impl>(runtime);
  Runtime::Impl& r = *runtime.impl();
  impl->spec = model::build_model(checkpoint, {.mtp = options.mtp});
  if (options.mtp && impl->spec.graph.draft_begin == kNone)
    impl->spec.warnings.push_back("mtp was asked for, but the files have no layer for it");
  const Graph& graph = impl->spec.graph;
  impl->placement = place(checkpoint, graph, r);
  impl->weights = sched::WeightStore(checkpoint, impl->spec.matrices, impl->spec.vectors, impl->placement, r.backends);
  impl->info = describe(checkpoint, impl->spec, impl->weights);

  try {
    impl->tokenizer = text::tokenizer_from_checkpoint(checkpoint);
  } catch (const Error& e) {
    if (e.code() != Code::not_found) throw;
  }
  if (impl->tokenizer) {
    if (std::string source = text::chat_template_source(checkpoint); !source.empty()) {
      auto text_of = [&](Token t) { return t == kNoToken ? std::string() : impl->tokenizer->piece(t); };
      try {
        impl->chat = ChatTemplate::parse(source, text_of(impl->tokenizer->bos()), text_of(impl->tokenizer->eos()));
      } catch (const Error& e) {  // raw completion still works
        impl->chat_failure = std::current_exception();
        impl->info.warnings.push_back(fmt::format("the chat template does not parse: {}", e.what()));
      }
    }
  }

  std::function<bool(std::uint64_t, std::uint64_t)> progress;
  if (options.progress)
    progress = [&](std::uint64_t done, std::uint64_t total) { return options.progress(Stage::read_weights, done, total); };
  impl->weights.load(checkpoint, impl->spec.matrices, impl->spec.vectors, impl->placement, r.backends, r.team, r.accountant,
                     options.cancel, progress);
  // A packed file says what they should be; summing them would read it whole.
  impl->sums = sched::sum_weights(graph, impl->weights.view(), r.team, checkpoint.packed == nullptr);
  if (checkpoint.packed != nullptr)
    for (std::size_t m = 0; m < graph.matrices.size(); ++m)
      impl->sums.matrices.push_back(checkpoint.packed->matrices[m].checksum);
  session::EngineParts parts = engine_parts(*impl);
  parts.count_experts = options.count_experts;
  impl->engine = std::make_unique<session::Engine>(std::move(parts));
  for (const std::string& w : impl->info.warnings) r.log(LogLevel::warning, w);
  return impl;
}

}  // namespace

io::OpenOptions open_options(const ModelOptions& o) {
  io::OpenOptions out;
  out.progress = o.progress;
  out.cancel = o.cancel;
  out.map = o.map;
  return out;
}

session::EngineParts engine_parts(const Model::Impl& impl) {
  Runtime::Impl& r = *impl.runtime.impl();
  session::EngineParts parts;
  parts.graph = &impl.spec.graph;
  parts.backends = &r.backends;
  parts.team = &r.team;
  parts.accountant = r.accountant;
  parts.preference = r.preference();
  parts.layouts = impl.placement.layout;
  parts.weights = impl.weights.view();
  return parts;
}

void check(const ComputeOptions& c) {
  if (c.chunk < 1 || c.chunk > 4096)
    throw Error(Code::argument, "compute.chunk", fmt::format("got {}, expected 1 to 4096", c.chunk));
  if (c.context < 0 || c.context > model::kMaxContext)
    throw Error(Code::argument, "compute.context", fmt::format("got {}, expected 0 to {}", c.context, model::kMaxContext));
}

Model Model::open(const Runtime& runtime, const std::string& path, const ModelOptions& options) {
  return Model(build(runtime, io::open_checkpoint(path, open_options(options)), options));
}
Model Model::open(const Runtime& runtime, std::shared_ptr<const Reader> gguf, const ModelOptions& options) {
  return Model(build(runtime, io::open_checkpoint(std::move(gguf), open_options(options)), options));
}
Model Model::open(const Runtime& runtime, std::shared_ptr<const Folder> folder, const std::string& entry,
                  const ModelOptions& options) {
  return Model(build(runtime, io::open_checkpoint(std::move(folder), entry, open_options(options)), options));
}

MemoryPlan Model::plan(const Runtime& runtime, const std::string& path, const ComputeOptions& compute,
                       const ModelOptions& options) {
  check(compute);
  Runtime::Impl& r = *runtime.impl();
  const io::Checkpoint checkpoint = io::open_checkpoint(path, open_options(options));
  model::ModelSpec spec = model::build_model(checkpoint, {.mtp = options.mtp});
  sched::Placement placement = place(checkpoint, spec.graph, r);
  sched::WeightStore weights(checkpoint, spec.matrices, spec.vectors, placement, r.backends);
  sched::Placement with_numerics = sched::place(spec.graph, r.backends, numerics_of(compute), r.preference(), &placement.layout);
  sched::Program program(spec.graph, r.backends, std::move(with_numerics), weights.view(), numerics_of(compute),
                         compute.exact ? DType::f32 : DType::f16);
  return sum_up(weights, cache_bytes(spec.graph, compute), program.workspace_bytes(compute.chunk, r.team.size()));
}

const ModelInfo& Model::info() const noexcept { return impl_->info; }
const Runtime& Model::runtime() const noexcept { return impl_->runtime; }

MemoryPlan Model::memory(const ComputeOptions& compute) const {
  check(compute);
  const session::Lane& lane = impl_->engine->lane(numerics_of(compute));
  return sum_up(impl_->weights, cache_bytes(impl_->spec.graph, compute),
                lane.program.workspace_bytes(compute.chunk, impl_->runtime.impl()->team.size()));
}

std::vector<PlanRow> Model::execution_plan(const ComputeOptions& compute) const {
  check(compute);
  const sched::Program& program = impl_->engine->lane(numerics_of(compute)).program;
  const auto layers = sched::layer_of_op(program.graph());
  std::vector<PlanRow> out;
  for (std::size_t i = 0; i < program.graph().ops.size(); ++i) {
    PlanRow row;
    row.op = op_name(program.graph().ops[i]);
    row.backend = impl_->runtime.impl()->backends[static_cast<std::size_t>(program.placement().backend[i])]->name();
    row.kernel = program.op(i).kernel();
    row.layer = layers[i];
    for (MatrixId m : graph::uses(program.graph().ops[i]).matrices) {
      const PackedMatrix& p = impl_->weights.matrix(static_cast<std::size_t>(m));
      row.bytes += p.stride * static_cast<std::uint64_t>(p.desc.count);
    }
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<ExpertLoad> Model::expert_load() const {
  std::lock_guard lock(impl_->engine->mutex());
  const sched::ExpertCount* count = impl_->engine->experts();
  if (count == nullptr)
    throw Error(Code::argument, "model.expert_load", "got a model opened without count_experts, expected one with");
  std::vector<ExpertLoad> out;
  for (const auto& l : count->layers()) out.push_back({l.layer, l.tokens});
  return out;
}

bool Model::has_tokenizer() const noexcept { return impl_->tokenizer.has_value(); }
const Tokenizer& Model::tokenizer() const {
  if (!impl_->tokenizer) throw Error(Code::not_found, "model.tokenizer", "got a model without a vocabulary, expected one with");
  return *impl_->tokenizer;
}
bool Model::has_chat_template() const noexcept { return impl_->chat.has_value(); }
const ChatTemplate& Model::chat_template() const {
  if (impl_->chat_failure) std::rethrow_exception(impl_->chat_failure);
  if (!impl_->chat) throw Error(Code::not_found, "model.chat_template", "got a model without a chat template, expected one with");
  return *impl_->chat;
}

}  // namespace dsv31::inline v1
