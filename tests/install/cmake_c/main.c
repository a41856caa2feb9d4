/* Loads a model, asks it a question, prints the answer. Valid C99 and valid C++ without exceptions. */
#include <stdio.h>
#include <string.h>

#include "dsv31/c_api.h"

static char answer[4096];
static size_t answer_length = 0;

static int32_t on_token(void* user, int32_t token, const char* text, size_t length) {
  (void)user;
  (void)token;
  if (answer_length + length < sizeof answer) {
    memcpy(answer + answer_length, text, length);
    answer_length += length;
  }
  return 1;
}

int main(int argc, char** argv) {
  dsv31_error error;
  dsv31_runtime_options options;
  dsv31_generate_options generate;
  dsv31_runtime* runtime = NULL;
  dsv31_model* model = NULL;
  dsv31_session* session = NULL;
  int32_t ids[512];
  int32_t finish = -1;
  size_t count = 0;
  if (argc != 2) return 2;
  error.struct_size = sizeof error;
  options.struct_size = sizeof options;
  dsv31_runtime_options_init(&options);
  options.threads = 1;
  generate.struct_size = sizeof generate;
  dsv31_generate_options_init(&generate);
  generate.temperature = 0;
  generate.max_tokens = 64;
  generate.on_token = on_token;
  if (dsv31_runtime_new(&options, &runtime, &error) != DSV31_OK) goto fail;
  if (dsv31_model_open(runtime, "/nowhere", NULL, &model, &error) != DSV31_NOT_FOUND) return 3;
  if (dsv31_model_open(runtime, argv[1], NULL, &model, &error) != DSV31_OK) goto fail;
  if (dsv31_chat_prompt(model, "[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]", 0, ids, 512, &count, &error) != DSV31_OK)
    goto fail;
  if (dsv31_session_new(model, NULL, &session, &error) != DSV31_OK) goto fail;
  if (dsv31_session_append(session, ids, count, NULL, &error) != DSV31_OK) goto fail;
  if (dsv31_session_generate(session, &generate, &finish, NULL, &error) != DSV31_OK) goto fail;
  dsv31_session_free(session);
  dsv31_model_free(model);
  dsv31_runtime_free(runtime);
  answer[answer_length] = 0;
  printf("%s\n", answer);
  return strstr(answer, "Paris") != NULL && finish == DSV31_FINISH_END_OF_GENERATION ? 0 : 5;
fail:
  fprintf(stderr, "%s\n", error.message);
  return 1;
}
