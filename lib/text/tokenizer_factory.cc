#include "lib/text/tokenizer_factory.h"

#include <fmt/format.h>

#include "lib/io/bytes.h"
#include "lib/io/gguf.h"
#include "lib/text/gguf_vocab.h"
#include "lib/text/tokenizer_impl.h"
#include "lib/text/tokenizer_json.h"

namespace dsv31::inline v1 {

namespace text {

namespace {

constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{128} << 20;

const io::Json* present(const io::Json& j) { return j.is_null() ? nullptr : &j; }

std::string text_of(const Tokenizer& t, Token id) {
  return id == kNoToken ? std::string() : std::string(t.impl().vocab.text(id));
}

}  // namespace

Tokenizer tokenizer_from_checkpoint(const io::Checkpoint& c) {
  if (c.kind == io::Checkpoint::Kind::gguf) return make_tokenizer(load_gguf_vocab(c.metadata));
  if (!c.tokenizer_json) throw Error(Code::not_found, "tokenizer", "got a checkpoint without tokenizer.json, expected one");
  return make_tokenizer(load_tokenizer_json(io::read_text(*c.tokenizer_json, kMaxJsonBytes, "tokenizer.json"),
                                            {present(c.tokenizer_config), present(c.generation_config), present(c.config)}));
}

std::string chat_template_source(const io::Checkpoint& c) {
  if (c.kind == io::Checkpoint::Kind::gguf) return std::string(c.metadata.string_or("tokenizer.chat_template", ""));
  if (!c.chat_template_jinja.empty()) return c.chat_template_jinja;
  const io::Json* t = c.tokenizer_config.find("chat_template");
  if (t == nullptr || t->is_null()) return {};
  if (t->is_string()) return t->as_string();
  if (!t->is_array())
    throw Error(Code::format, "tokenizer_config.json",
                fmt::format("chat_template: got {}, expected a text or an array", t->kind()));
  for (const io::Json& named : t->as_array())
    if (named.get_string("name") == "default") return named.get_string("template");
  return t->as_array().empty() ? std::string() : t->as_array()[0].get_string("template");
}

std::string bos_text(const Tokenizer& t) { return text_of(t, t.bos()); }
std::string eos_text(const Tokenizer& t) { return text_of(t, t.eos()); }

const std::vector<std::string>& tokenizer_warnings(const Tokenizer& t) noexcept { return t.impl().vocab.warnings; }

}  // namespace text

Tokenizer Tokenizer::open(std::shared_ptr<const Reader> file) {
  if (!file) throw Error(Code::argument, "tokenizer", "file: got none, expected a reader");
  if (io::has_gguf_magic(*file)) {
    io::Checkpoint parts;
    return text::make_tokenizer(text::load_gguf_vocab(io::read_gguf(file, "gguf", {}, {}, parts)));
  }
  const std::string json = io::read_text(*file, text::kMaxJsonBytes, "tokenizer.json");
  const std::size_t at = json.find_first_not_of(" \t\r\n");
  if (at == std::string::npos || json[at] != '{')
    throw Error(Code::format, "tokenizer", "got a file that starts otherwise, expected GGUF or a JSON object");
  return text::make_tokenizer(text::load_tokenizer_json(json));
}

Tokenizer Tokenizer::open(const std::string& path) { return open(open_file(path)); }

}  // namespace dsv31::inline v1
