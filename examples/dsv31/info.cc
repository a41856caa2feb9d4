#include <cstdio>
#include <memory>

#include "command.h"

namespace cli {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape, const char* separator) {
  std::string out;
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? separator : "") + std::to_string(shape[i]);
  return out;
}

void print_json(const dsv31::Model& model, const dsv31::ComputeOptions& compute, bool plan) {
  const dsv31::ModelInfo& i = model.info();
  dsv31::MemoryPlan m = model.memory(compute);
  auto field = [](const char* name, auto value) { std::printf("\"%s\": %lld, ", name, static_cast<long long>(value)); };
  std::printf("{\"architecture\": %s, \"name\": %s, ", json_string(i.architecture).c_str(), json_string(i.name).c_str());
  field("num_hidden_layers", i.num_hidden_layers);
  field("hidden_size", i.hidden_size);
  field("num_attention_heads", i.num_attention_heads);
  field("num_key_value_heads", i.num_key_value_heads);
  field("vocab_size", i.vocab_size);
  field("context_length", i.context_length);
  field("n_routed_experts", i.n_routed_experts);
  field("num_experts_per_tok", i.num_experts_per_tok);
  field("parameters", i.parameters);
  field("weight_bytes", i.weight_bytes);
  field("packed_bytes", i.packed_bytes);
  field("active_bytes", i.active_bytes);
  field("cache_bytes_per_token", i.cache_bytes_per_token);
  std::printf(
      "\"memory\": {\"weights\": %llu, \"cache\": %llu, \"scratch\": %llu, \"total\": %llu, \"mapped\": %llu}, "
      "\"source_hash\": %s, \"isa\": %s, \"threads\": %d, \"tensors\": [",
      static_cast<unsigned long long>(m.weights), static_cast<unsigned long long>(m.cache),
      static_cast<unsigned long long>(m.scratch), static_cast<unsigned long long>(m.total),
      static_cast<unsigned long long>(m.mapped), json_string(i.source_hash).c_str(), json_string(model.runtime().isa()).c_str(),
      model.runtime().threads());
  const char* comma = "";
  for (auto& t : i.tensors) {
    std::printf("%s{\"name\": %s, \"type\": %s, \"shape\": [%s], \"bytes\": %llu}", comma, json_string(t.name).c_str(),
                json_string(t.type).c_str(), shape_text(t.shape, ", ").c_str(), static_cast<unsigned long long>(t.bytes));
    comma = ", ";
  }
  std::printf("], \"extra_tensors\": [");
  comma = "";
  for (auto& name : i.extra_tensors) {
    std::printf("%s%s", comma, json_string(name).c_str());
    comma = ", ";
  }
  std::printf("], \"warnings\": [");
  comma = "";
  for (auto& w : i.warnings) {
    std::printf("%s%s", comma, json_string(w).c_str());
    comma = ", ";
  }
  std::printf("]");
  if (plan) {
    std::printf(", \"plan\": [");
    comma = "";
    for (auto& r : model.execution_plan(compute)) {
      std::printf("%s{\"op\": %s, \"layer\": %d, \"backend\": %s, \"kernel\": %s, \"bytes\": %llu}", comma,
                  json_string(r.op).c_str(), r.layer, json_string(r.backend).c_str(), json_string(r.kernel).c_str(),
                  static_cast<unsigned long long>(r.bytes));
      comma = ", ";
    }
    std::printf("]");
  }
  std::printf("}\n");
}

void print_text(const dsv31::Model& model, const dsv31::ComputeOptions& compute, bool plan) {
  const dsv31::ModelInfo& i = model.info();
  dsv31::MemoryPlan m = model.memory(compute);
  std::printf("%s%s%s%s\n", i.architecture.c_str(), i.name.empty() ? "" : " (", i.name.c_str(), i.name.empty() ? "" : ")");
  std::printf("%.1f M parameters, %lld layers, hidden %lld, vocabulary %lld, context %lld\n",
              static_cast<double>(i.parameters) / 1e6, static_cast<long long>(i.num_hidden_layers),
              static_cast<long long>(i.hidden_size), static_cast<long long>(i.vocab_size),
              static_cast<long long>(i.context_length));
  if (i.n_routed_experts > 0)
    std::printf("%lld experts, %lld a token\n", static_cast<long long>(i.n_routed_experts),
                static_cast<long long>(i.num_experts_per_tok));
  std::printf("weights %.1f MB in the files, %.1f MB packed, %.1f MB a token; cache %llu bytes a token\n",
              static_cast<double>(i.weight_bytes) / 1e6, static_cast<double>(i.packed_bytes) / 1e6,
              static_cast<double>(i.active_bytes) / 1e6, static_cast<unsigned long long>(i.cache_bytes_per_token));
  std::printf("memory: weights %.1f + cache %.1f + scratch %.1f = %.1f MB; %d threads, %s\n",
              static_cast<double>(m.weights) / 1e6, static_cast<double>(m.cache) / 1e6, static_cast<double>(m.scratch) / 1e6,
              static_cast<double>(m.total) / 1e6, model.runtime().threads(), model.runtime().isa().c_str());
  if (!i.source_hash.empty()) std::printf("packed file, XXH64 of its source %s\n", i.source_hash.c_str());
  if (m.mapped > 0) std::printf("weights mapped: %.1f MB\n", static_cast<double>(m.mapped) / 1e6);
  for (auto& name : i.extra_tensors) std::printf("not used: %s\n", name.c_str());
  for (auto& w : i.warnings) std::printf("warning: %s\n", w.c_str());
  if (!plan) return;
  std::printf("%5s  %-14s %-10s %12s  %s\n", "layer", "op", "backend", "bytes", "kernel");
  for (auto& r : model.execution_plan(compute))
    std::printf("%5s  %-14s %-10s %12llu  %s\n", r.layer < 0 ? "" : std::to_string(r.layer).c_str(), r.op.c_str(),
                r.backend.c_str(), static_cast<unsigned long long>(r.bytes), r.kernel.c_str());
}

}  // namespace

// dsv31 info: what a model is, what it takes, and with --plan which kernel runs each op.
void add_info(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    bool plan = false, json = false;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("info", "Describes a model");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  sub->add_flag("--plan", a->plan, "The execution plan: op, backend, kernel, bytes");
  sub->add_flag("--json", a->json, "Print JSON, with every tensor");
  sub->callback([&action, a] {
    action = [a] {
      dsv31::Model model = open_model(a->model);
      (a->json ? print_json : print_text)(model, a->model.compute(), a->plan);
    };
  });
}

}  // namespace cli
