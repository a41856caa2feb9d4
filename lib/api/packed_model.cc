// Writing and checking packed files; opening one is Model::open (lib/api/model.cc).
#include <fmt/format.h>

#include "dsv31/model.h"
#include "lib/api/model_impl.h"
#include "lib/io/packed.h"
#include "lib/sched/pack_file.h"

namespace dsv31::inline v1 {
namespace {

void verify(const io::Checkpoint& checkpoint, const ModelOptions& options) {
  if (checkpoint.packed == nullptr)
    throw Error(Code::argument, "model.verify_file", "file: got one without checksums, expected a packed file");
  io::verify_packed(*checkpoint.packed, io::Watch(&options.progress, options.cancel));
}

}  // namespace

void Model::pack(const Runtime& runtime, const std::string& path, const std::string& packed_path, const ModelOptions& options) {
  Runtime::Impl& r = *runtime.impl();
  const io::Checkpoint checkpoint = io::open_checkpoint(path, open_options(options));
  if (checkpoint.packed != nullptr)
    throw Error(Code::argument, "model.pack", "path: got a packed file, expected the files it was made from");
  // The draft layer goes along where there is one; its matrices come behind those of the trunk.
  const model::ModelSpec spec = model::build_model(checkpoint, {.mtp = true});
  const sched::Placement placement = sched::place(spec.graph, r.backends, {}, r.preference());
  io::OutputFile file(packed_path);
  sched::PackJob job;
  job.checkpoint = &checkpoint;
  job.matrices = &spec.matrices;
  job.placement = &placement;
  job.backends = &r.backends;
  job.team = &r.team;
  job.accountant = r.accountant;
  job.progress = options.progress;
  job.cancel = options.cancel;
  sched::write_packed(job, file);
  file.commit();
}

void Model::verify_file(const std::string& packed_path, const ModelOptions& options) {
  verify(io::open_checkpoint(packed_path, open_options(options)), options);
}

void Model::verify_file(std::shared_ptr<const Reader> packed, const ModelOptions& options) {
  verify(io::open_checkpoint(std::move(packed), open_options(options)), options);
}

}  // namespace dsv31::inline v1
