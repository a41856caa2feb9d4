// A wrong graph is refused by op and field; what an op touches is what its fields say.
#include "lib/graph/graph.h"

#include <algorithm>
#include <string>

#include "dsv31/error.h"
#include "tests/catch.h"
#include "tests/graph/sample.h"

using namespace dsv31;

namespace {

template <class OpType>
OpType& at(Graph& g, std::size_t i) {
  return std::get<OpType>(g.ops[i]);
}

std::string refusal(const Graph& g) {
  try {
    graph::validate(g);
  } catch (const Error& e) {
    REQUIRE(e.code() == Code::mismatch);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the sample graphs are valid") {
  CHECK(refusal(sample::dense().graph) == "accepted");
  CHECK(refusal(sample::mla().graph) == "accepted");
}

TEST_CASE("op_name gives one word an op") {
  const Graph d = sample::dense().graph, m = sample::mla().graph;
  std::string names;
  for (const Op& op : d.ops) names += std::string(op_name(op)) + " ";
  for (const Op& op : m.ops) names += std::string(op_name(op)) + " ";
  CHECK(names ==
        "embed angles linear rope_cache attention linear gated_ffn head "
        "embed angles linear mla_attention linear gate experts head ");
}

TEST_CASE("uses lists a fused projection's operands in the order of its fields") {
  const Graph g = sample::dense().graph;
  const graph::OpUse qkv = graph::uses(g.ops[sample::Dense::qkv]);
  CHECK(qkv.reads == std::vector<ValueId>{0});
  CHECK(qkv.writes == std::vector<ValueId>{2, 3, 4});
  CHECK(qkv.matrices == std::vector<MatrixId>{1, 2, 3});
  CHECK(qkv.vectors.size() == 2);
}

TEST_CASE("uses shows an update in place as a read and a write") {
  const Graph g = sample::dense().graph;
  const graph::OpUse rope = graph::uses(g.ops[sample::Dense::rope]);
  CHECK(rope.reads == std::vector<ValueId>{1, 2, 3, 4});
  CHECK(rope.writes == std::vector<ValueId>{2});
  const graph::OpUse o = graph::uses(g.ops[sample::Dense::o]);
  CHECK(o.reads == std::vector<ValueId>{5, 0});
  CHECK(o.writes == std::vector<ValueId>{0});
}

TEST_CASE("uses shows routed and shared experts") {
  const Graph g = sample::mla().graph;
  const graph::OpUse experts = graph::uses(g.ops[sample::Mla::experts]);
  CHECK(experts.reads == std::vector<ValueId>{0, 5, 6, 0});
  CHECK(experts.matrices.size() == 6);
}

TEST_CASE("an id out of range is refused by op and field") {
  Graph g = sample::dense().graph;
  SECTION("value") {
    at<Linear>(g, sample::Dense::qkv).x = 99;
    CHECK(refusal(g) == "[graph] op 2 linear.x: got value 99, expected one of 7");
  }
  SECTION("missing value") {
    at<Attention>(g, sample::Dense::attention).out = kNone;
    CHECK(refusal(g) == "[graph] op 4 attention.out: got value -1, expected one of 7");
  }
  SECTION("matrix") {
    at<GatedFfn>(g, sample::Dense::ffn).down = -7;
    CHECK(refusal(g) == "[graph] op 6 gated_ffn.down: got matrix -7, expected one of 8");
  }
  SECTION("vector") {
    at<Head>(g, sample::Dense::head).norm.weight = 1000;
    CHECK(refusal(g) == "[graph] op 7 head.norm: got vector 1000, expected one of 5");
  }
  SECTION("layer") {
    at<RopeCache>(g, sample::Dense::rope).layer = 1;
    CHECK(refusal(g) == "[graph] op 3 rope_cache.layer: got layer 1, expected one of 1");
  }
}

TEST_CASE("a shape that does not fit its neighbours is refused by op and field") {
  Graph g = sample::dense().graph;
  SECTION("matrix rows") {
    g.matrices[2].rows = 48;
    CHECK(refusal(g) == "[graph] op 2 linear.parts[1].weight: got (1, 48, 64), expected (1, 32, 64)");
  }
  SECTION("bias") {
    at<Linear>(g, sample::Dense::qkv).parts[1].bias = at<Linear>(g, sample::Dense::qkv).parts[0].bias;
    CHECK(refusal(g) == "[graph] op 2 linear.parts[1].bias: got width 64, expected 32");
  }
  SECTION("heads") {
    at<Attention>(g, sample::Dense::attention).num_attention_heads = 3;
    CHECK(refusal(g) == "[graph] op 4 attention.q: got width 64, expected 96");
  }
  SECTION("zero key-value heads divide nothing") {
    at<RopeCache>(g, sample::Dense::rope).num_key_value_heads = 0;
    CHECK(refusal(g) == "[graph] op 3 rope_cache.num_key_value_heads: expected a positive divisor of num_attention_heads");
  }
  SECTION("odd rope_dim") {
    at<RopeCache>(g, sample::Dense::rope).rope_dim = 31;
    CHECK(refusal(g) == "[graph] op 3 rope_cache.rope_dim: expected an even number up to head_dim");
  }
  SECTION("cache of another shape") {
    g.caches[0].head_dim = 16;
    CHECK(refusal(g) == "[graph] op 3 rope_cache.layer: got a cache of 1 heads of 16, latent 0, expected 1 heads of 32");
  }
  SECTION("window") {
    at<Attention>(g, sample::Dense::attention).window = 8;
    CHECK(refusal(g) == "[graph] op 4 attention.window: got 8, expected the cache's window 0");
  }
  SECTION("columns that do not fill blocks") {
    g.matrices[6].type = DType::q4_k;
    CHECK(refusal(g) == "[graph] matrix 6: got 64 columns, expected a multiple of 256 for Q4_K");
  }
  SECTION("a type that is no weight") {
    g.matrices[6].type = DType::i32;
    CHECK(refusal(g) == "[graph] matrix 6: got type I32, expected a weight format");
  }
  SECTION("a product of dimensions that wraps") {
    g.matrices[6] = sample::f32(std::int64_t{1} << 31, std::int64_t{1} << 31, 4);
    CHECK(refusal(g) == "[graph] matrix 6: got (4, 2147483648, 2147483648), expected dimensions of 1 to 2147483648");
  }
}

TEST_CASE("values are written before they are read, once an op, and rows do not mix") {
  Graph g = sample::dense().graph;
  SECTION("order") {
    std::swap(g.ops[0], g.ops[2]);
    CHECK(refusal(g) == "[graph] op 0 linear.x: value 0 is read before it is written");
  }
  SECTION("two parts into one value") {
    at<Linear>(g, sample::Dense::qkv).parts[2].out = 3;
    CHECK(refusal(g) == "[graph] op 2 linear.parts[2].out: value 3 is written twice by one op");
  }
  SECTION("a token row where a logit row is wanted") {
    g.values[6].logits = false;
    CHECK(refusal(g) == "[graph] op 7 head.out: got a value with a row a token, expected a row a logit");
  }
  SECTION("residual with several parts") {
    at<Linear>(g, sample::Dense::qkv).residual = 0;
    CHECK(refusal(g) == "[graph] op 2 linear.residual: expected one part where there is a residual");
  }
  SECTION("logits nobody writes") {
    g.ops.pop_back();
    CHECK(refusal(g) == "[graph] logits: expected a written value (n_logits, vocab_size)");
  }
}

TEST_CASE("q and c are gone after latent attention") {
  Graph g = sample::mla().graph;
  at<Linear>(g, sample::Mla::o).x = at<MlaAttention>(g, sample::Mla::attention).q;
  CHECK(refusal(g) == "[graph] op 4 linear.x: value 2 is read after an op that overwrites it");
}

TEST_CASE("the gate's groups divide its experts and hold enough of them") {
  Graph g = sample::mla().graph;
  Gate& gate = at<Gate>(g, sample::Mla::gate);
  SECTION("no groups") {
    gate.n_group = 0;
    CHECK(refusal(g) == "[graph] op 5 gate.n_group: expected a positive divisor of n_routed_experts");
  }
  SECTION("not dividing") {
    gate.n_group = 3;
    CHECK(refusal(g) == "[graph] op 5 gate.n_group: expected a positive divisor of n_routed_experts");
  }
  SECTION("too few experts left") {
    gate.topk_group = 1;
    CHECK(refusal(g) == "[graph] op 5 gate.topk_group: expected groups that hold num_experts_per_tok experts");
  }
  SECTION("more experts a token than there are") {
    gate.num_experts_per_tok = 9;
    CHECK(refusal(g) == "[graph] op 5 gate.num_experts_per_tok: expected 1 to n_routed_experts");
  }
  SECTION("a shared expert without its down projection") {
    at<Experts>(g, sample::Mla::experts).shared_down = kNone;
    CHECK(refusal(g) == "[graph] op 6 experts.shared_gate: expected shared_gate, shared_up and shared_down together or none");
  }
}

TEST_CASE("the summary has one line an op") {
  const std::string text = graph::summary(sample::dense().graph);
  CHECK(text.substr(0, text.find('\n')) == "0 embed -> %0(64) m F32(320, 64)");
  CHECK(std::count(text.begin(), text.end(), '\n') == 8);
}
