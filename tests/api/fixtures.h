// Recorded outputs of the reference implementation (transformers, float32, eager attention) on tiny models with random weights:
// tests/data/random/NAME/golden.safetensors holds I.input_ids (n), I.logits (n, vocab_size) and 1.greedy (16).
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "dsv31/dsv31.h"
#include "lib/io/checkpoint.h"

namespace dsv31::test {

inline std::string random_model(const std::string& name) { return std::string(DSV31_TEST_DATA) + "/random/" + name; }

class Golden {
 public:
  explicit Golden(const std::string& path) : file_(io::open_checkpoint(path)) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::vector<Token> ids(const std::string& name) const { return read<Token>(name); }
  std::vector<float> floats(const std::string& name) const { return read<float>(name); }

 private:
  template <class T>
  std::vector<T> read(const std::string& name) const {
    const io::TensorInfo* t = file_.find(name);
    if (t == nullptr) throw Error(Code::not_found, "golden", name);
    std::vector<T> out(t->bytes / sizeof(T));
    file_.files[t->file]->read_at(t->offset, out.data(), t->bytes);
    return out;
  }
  io::Checkpoint file_;
};

// Logits of every token, (tokens, vocab_size).
inline std::vector<float> all_logits(Session& session, std::span<const Token> ids) {
  std::vector<float> out;
  session.append(ids, [&](std::int64_t, std::span<const float> row) { out.insert(out.end(), row.begin(), row.end()); });
  return out;
}

inline std::vector<float> all_logits(const Model& model, std::span<const Token> ids, const ComputeOptions& compute) {
  Session session(model, compute);
  return all_logits(session, ids);
}

inline double max_abs(const std::vector<float>& v) {
  double m = 0;
  for (float x : v) m = std::max(m, std::fabs(static_cast<double>(x)));
  return m;
}

inline double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double m = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    m = d <= m ? m : d;  // a NaN becomes the maximum and stays
  }
  return m;
}

// Mean squared error over the variance of the reference.
inline double nmse(const std::vector<float>& got, const std::vector<float>& reference) {
  if (got.size() != reference.size() || got.empty()) return INFINITY;
  double mean = 0, variance = 0, error = 0;
  for (float x : reference) mean += static_cast<double>(x);
  mean /= static_cast<double>(reference.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    double r = static_cast<double>(reference[i]), d = static_cast<double>(got[i]) - r;
    variance += (r - mean) * (r - mean);
    error += d * d;
  }
  return error / variance;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Pseudo-random ids that depend on nothing but their arguments.
inline std::vector<Token> made_tokens(std::size_t n, unsigned salt, std::int64_t vocab_size) {
  std::vector<Token> out;
  std::uint64_t x = salt * 0x9E3779B97F4A7C15u + 1;
  for (std::size_t i = 0; i < n; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    out.push_back(static_cast<Token>(x % static_cast<std::uint64_t>(vocab_size)));
  }
  return out;
}

inline Runtime runtime_with(int threads, std::string isa = {}, std::string backend = {}) {
  RuntimeOptions o;
  o.threads = threads;
  o.isa = std::move(isa);
  o.backend = std::move(backend);
  return Runtime(o);
}

// The instruction sets that this build and processor have.
inline std::vector<std::string> available_isas() {
  std::vector<std::string> out;
  for (const char* isa : {"generic", "avx2", "avx512", "amx"}) {
    try {
      runtime_with(1, isa);
      out.push_back(isa);
    } catch (const Error& e) {
      if (e.code() != Code::unsupported) throw;
    }
  }
  return out;
}

}  // namespace dsv31::test
