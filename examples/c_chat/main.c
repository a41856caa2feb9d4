/* A question to a model from C: the answer is printed as it comes, and Ctrl-C ends it.  usage: c_chat MODEL QUESTION */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "dsv31/c_api.h"

static volatile sig_atomic_t interrupted = 0;
static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
}

static int32_t on_token(void* user, int32_t token, const char* text, size_t length) {
  (void)token;
  fwrite(text, 1, length, (FILE*)user);
  fflush((FILE*)user);
  return !interrupted; /* 0 stops; the tokens so far stay */
}

static int32_t on_progress(void* user, int32_t stage, uint64_t done, uint64_t total) {
  (void)user, (void)stage, (void)done, (void)total;
  return !interrupted; /* 0 cancels the loading */
}

/* The one message of the conversation as JSON; the caller frees it. */
static char* message_json(const char* text) {
  static const char head[] = "[{\"role\": \"user\", \"content\": \"", tail[] = "\"}]";
  size_t room = sizeof head + sizeof tail;
  const char* p;
  char *json, *to;
  for (p = text; *p != 0; ++p) room += 6; /* \u00XX at most */
  json = malloc(room);
  if (json == NULL) return NULL;
  to = json + sprintf(json, "%s", head);
  for (p = text; *p != 0; ++p)
    if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20)
      to += sprintf(to, "\\u%04x", (unsigned)*p);
    else
      *to++ = *p;
  sprintf(to, "%s", tail);
  return json;
}

int main(int argc, char** argv) {
  dsv31_error error = {sizeof error, DSV31_OK, ""};
  dsv31_runtime* runtime = NULL;
  dsv31_model* model = NULL;
  dsv31_session* session = NULL;
  dsv31_model_options opening;
  dsv31_generate_options generate;
  int32_t ids[1024], finish = DSV31_FINISH_STOPPED;
  size_t count = 0;
  int64_t generated = 0;
  char* messages;
  if (argc != 3) {
    fprintf(stderr, "usage: c_chat MODEL QUESTION\n");
    return 2;
  }
  signal(SIGINT, on_interrupt);
  messages = message_json(argv[2]);
  opening.struct_size = sizeof opening;
  dsv31_model_options_init(&opening);
  opening.progress = on_progress;
  generate.struct_size = sizeof generate;
  dsv31_generate_options_init(&generate);
  generate.temperature = 0;
  generate.max_tokens = 256;
  generate.on_token = on_token;
  generate.user = stdout;

  /* Each call returns 0 or an error code; the first failure ends the chain with its message in `error`. */
  if (messages == NULL)
    error.code = DSV31_NO_MEMORY;
  else if (dsv31_runtime_new(NULL, &runtime, &error) == DSV31_OK &&
           dsv31_model_open(runtime, argv[1], &opening, &model, &error) == DSV31_OK &&
           dsv31_chat_prompt(model, messages, 0, ids, sizeof ids / sizeof *ids, &count, &error) == DSV31_OK &&
           dsv31_session_new(model, NULL, &session, &error) == DSV31_OK &&
           dsv31_session_append(session, ids, count, NULL, &error) == DSV31_OK)
    dsv31_session_generate(session, &generate, &finish, &generated, &error);
  if (error.code == DSV31_OK)
    printf("\n[%ld tokens%s]\n", (long)generated, finish == DSV31_FINISH_STOPPED ? ", interrupted" : "");
  else
    fprintf(stderr, "c_chat: %s\n", error.message);

  dsv31_session_free(session);
  dsv31_model_free(model);
  dsv31_runtime_free(runtime);
  free(messages);
  return error.code == DSV31_OK ? 0 : 1;
}
