// The backends that this build has, best first: the only list of them.
#include "backends/cpu/backend.h"
#include "backends/quantized/packed.h"
#if defined(DSV31_ONEDNN)
#include "backends/cpu/onednn.h"
#endif

namespace dsv31::inline v1 {

std::unique_ptr<Backend> make_cpu_backend(std::string_view isa) {
#if defined(DSV31_ONEDNN)
  const cpu::KernelTable& kernels = cpu::onednn_kernels();
#else
  const cpu::KernelTable& kernels = cpu::float_kernels();
#endif
  return cpu::make_backend("cpu", kernels, cpu::Claim::float_matrices, cpu::choose_isa(isa));
}

std::unique_ptr<Backend> make_quantized_backend(std::string_view isa) {
  return cpu::make_backend("quantized", quantized::kernels(), cpu::Claim::any_quantized, cpu::choose_isa(isa));
}

BuiltinBackends builtin_backends(std::string_view isa) {
  BuiltinBackends built;
  built.isa = simd::isa_name(cpu::choose_isa(isa));
  built.list.push_back(make_quantized_backend(isa));
  built.list.push_back(make_cpu_backend(isa));
  built.list.push_back(make_reference_backend());
  return built;
}

}  // namespace dsv31::inline v1
