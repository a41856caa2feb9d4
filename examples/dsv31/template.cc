#include <cstdio>
#include <memory>

#include "command.h"

namespace cli {

// dsv31 template: the prompt that a chat template makes of a conversation.
void add_template(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    std::string file, bos, eos, messages, tools, kwargs;
    bool no_generation_prompt = false;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("template", "Prints the prompt of a conversation");
  auto* m = sub->add_option("-m,--model", a->model.path, "Model whose template is used");
  sub->add_option("--template", a->file, "Jinja file")->excludes(m);
  sub->add_option("--bos-token", a->bos, "With --template: text of the beginning-of-sequence token");
  sub->add_option("--eos-token", a->eos, "With --template: text of the end-of-sequence token");
  sub->add_option("--messages", a->messages, "JSON array of messages; -: stdin")->required();
  sub->add_option("--tools", a->tools, "JSON array of tools, in a file");
  sub->add_option("--kwargs", a->kwargs, "JSON object of further variables");
  sub->add_flag("--no-generation-prompt", a->no_generation_prompt, "End after the last message");
  sub->callback([&action, a] {
    action = [a] {
      if (a->model.path.empty() && a->file.empty())
        throw UsageError{"template: got no template, expected -m MODEL or --template FILE"};
      dsv31::ChatOptions o;
      o.add_generation_prompt = !a->no_generation_prompt;
      if (!a->tools.empty()) o.tools = read_text(a->tools);
      o.kwargs = a->kwargs;
      std::string messages = read_text(a->messages);
      std::string text;
      if (a->file.empty()) {
        text = open_model(a->model).chat_template().render_json(messages, o).text;
      } else {
        text = dsv31::ChatTemplate::parse(read_text(a->file), a->bos, a->eos).render_json(messages, o).text;
      }
      std::fwrite(text.data(), 1, text.size(), stdout);
    };
  });
}

}  // namespace cli
