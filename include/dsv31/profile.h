// What a machine can do and what a model asks of it: the limits that measured speeds are held against.
//
// Decode reads every active weight and the cache once a token, so bytes over bandwidth bound it; prefill multiplies, so
// multiply-accumulates over the rate of their instruction form bound it. All functions may be called from any thread; probing
// keeps the runtime's workers busy meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsv31/export.h"
#include "dsv31/model.h"
#include "dsv31/runtime.h"

namespace dsv31::inline v1 {

struct FormRate {
  std::string form;                // "u4*s8": unsigned codes of 4 bits by int8 activations
  std::vector<std::string> types;  // weights whose products have this form: "Q4_0", ...
  double macs_per_second = 0;      // of all workers together, operands in registers
  double macs_per_cycle = 0;       // of one worker
};

struct MachineProfile {
  std::string isa;
  int threads = 0;
  double cycles_per_second = 0;   // of a core, all workers running
  double read_bandwidth_one = 0;  // bytes a second that the calling thread reads alone
  double read_bandwidth = 0;      // that all workers read together
  double barrier_seconds = 0;     // from one phase of the workers to the next
  std::vector<FormRate> forms;    // none for "generic"
};

struct ProbeOptions {
  std::uint64_t buffer_bytes = std::uint64_t{256} << 20;  // read for the bandwidths; far larger than the caches, from 4096 on
  double seconds_a_loop = 0.05;                           // above 0, at most 10
};

// Takes about a second. Throws argument for an option out of range, no_memory.
DSV31_API MachineProfile probe_machine(const Runtime& runtime, const ProbeOptions& options = {});

struct TypeWork {
  std::string type;        // of the weights
  std::uint64_t macs = 0;  // multiply-accumulates
};

struct AttentionWork {
  std::int64_t window = 0;          // keys seen at most; 0: all
  std::uint64_t macs_per_key = 0;   // of one row
  std::uint64_t bytes_per_key = 0;  // of the cache
};

// What one token costs.
struct TokenWork {
  std::vector<TypeWork> body;            // layers, by type of weights; of experts those that are chosen
  std::vector<TypeWork> head;            // logits of one row
  std::vector<AttentionWork> attention;  // by layer
  std::uint64_t weight_bytes = 0;        // read for a token, as in the files
  std::int64_t layers = 0;
  std::int64_t barriers = 0;  // phases of a step of one token with logits, at the position asked for
};

DSV31_API TokenWork token_work(const Model& model, const ComputeOptions& compute = {}, std::int64_t position = 0);

// Bytes that a token at this position reads.
DSV31_API double decode_bytes(const TokenWork& work, std::int64_t position);
// Seconds that a prompt of `tokens` after `depth` others takes at least, logits of its last token included. 0 where the machine's
// rates of a type are not known.
DSV31_API double least_prefill_seconds(const MachineProfile& machine, const TokenWork& work, std::int64_t depth,
                                       std::int64_t tokens);

}  // namespace dsv31::inline v1
