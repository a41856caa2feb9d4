/* The library for C, and for hosts without exceptions or RTTI. Stable: functions are only added, structs only grow at their end.
 *
 * Every struct starts with struct_size, which the caller sets to sizeof of it. Every call that can fail returns 0 or an error
 * code (dsv31_code) and fills the caller's dsv31_error if that is not null. No exception crosses this border. Objects are
 * released with their *_free function, null allowed; a model keeps its runtime alive and a session its model. Threads: as in the
 * C++ headers. Strings are UTF-8; lengths are bytes and texts need no terminating zero. */
#ifndef DSV31_C_API_H
#define DSV31_C_API_H

#include <stddef.h>
#include <stdint.h>

#include "dsv31/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DSV31_C_API_VERSION 2

typedef enum dsv31_code {
  DSV31_OK = 0,
  DSV31_IO = 1,
  DSV31_FORMAT,
  DSV31_LIMIT,
  DSV31_UNSUPPORTED,
  DSV31_MISMATCH,
  DSV31_ARGUMENT,
  DSV31_NOT_FOUND,
  DSV31_NO_MEMORY,
  DSV31_BUSY,
  DSV31_CANCELLED,
  DSV31_TIMEOUT,
  DSV31_BACKEND,
  DSV31_PEER
} dsv31_code;

typedef struct dsv31_error {
  size_t struct_size;
  int32_t code;
  char message[512];
} dsv31_error;

typedef struct dsv31_runtime dsv31_runtime;
typedef struct dsv31_model dsv31_model;
typedef struct dsv31_session dsv31_session;
typedef struct dsv31_cancel dsv31_cancel;

/* DSV31_C_API_VERSION of the library that is linked. */
DSV31_API uint32_t dsv31_c_api_version(void);
DSV31_API const char* dsv31_version(void); /* "0.1.0" */

/* A cancel token: set from any thread, read by the calls it was given to. */
DSV31_API int32_t dsv31_cancel_new(dsv31_cancel** out, dsv31_error* error);
DSV31_API void dsv31_cancel_set(dsv31_cancel* token);
DSV31_API void dsv31_cancel_reset(dsv31_cancel* token);
DSV31_API void dsv31_cancel_free(dsv31_cancel* token);

typedef struct dsv31_runtime_options {
  size_t struct_size;
  int32_t threads;                                                           /* 0: usable processors */
  uint64_t memory_budget;                                                    /* bytes; 0: none */
  const char* isa;                                                           /* null: best */
  const char* backend;                                                       /* null: by affinity */
  void (*log)(void* user, int32_t level, const char* record, size_t length); /* level 0 error .. 3 debug; may be null */
  void* log_user;
  int32_t log_level; /* default 1, warning */
} dsv31_runtime_options;
/* Fills the defaults for options->struct_size bytes. */
DSV31_API void dsv31_runtime_options_init(dsv31_runtime_options* options);
DSV31_API int32_t dsv31_runtime_new(const dsv31_runtime_options* options, dsv31_runtime** out, dsv31_error* error);
DSV31_API void dsv31_runtime_free(dsv31_runtime* runtime);

typedef struct dsv31_reader {
  size_t struct_size;
  void* user;
  uint64_t size;
  int32_t (*read_at)(void* user, uint64_t offset, void* dst, size_t n); /* 0 or an error code; any thread */
  void (*close)(void* user);                                            /* may be null */
} dsv31_reader;

typedef struct dsv31_model_options {
  size_t struct_size;
  int32_t (*progress)(void* user, int32_t stage, uint64_t done, uint64_t total); /* 0 cancels; may be null */
  void* progress_user;
  const dsv31_cancel* cancel; /* may be null */
  /* since 2 */
  int32_t mtp; /* 1: load the layer that drafts, where the files have one */
} dsv31_model_options;
DSV31_API void dsv31_model_options_init(dsv31_model_options* options);
DSV31_API int32_t dsv31_model_open(dsv31_runtime* runtime, const char* path, const dsv31_model_options* options,
                                   dsv31_model** out, dsv31_error* error);
/* The reader is closed when the model no longer needs it, also on failure. */
DSV31_API int32_t dsv31_model_open_reader(dsv31_runtime* runtime, const dsv31_reader* reader, const dsv31_model_options* options,
                                          dsv31_model** out, dsv31_error* error);
DSV31_API void dsv31_model_free(dsv31_model* model);
DSV31_API int64_t dsv31_model_vocab_size(const dsv31_model* model);
DSV31_API int64_t dsv31_model_context_length(const dsv31_model* model);

/* Token ids of a text. Writes at most `capacity` ids and sets *count to the number there are; capacity too small is DSV31_LIMIT.
 * special: 0 none, 1 user-defined tokens match, 2 control tokens too. bos: 1 puts the beginning-of-sequence token first. */
DSV31_API int32_t dsv31_tokenize(const dsv31_model* model, const char* text, size_t length, int32_t special, int32_t bos,
                                 int32_t* ids, size_t capacity, size_t* count, dsv31_error* error);
/* The bytes of the ids; the same convention. */
DSV31_API int32_t dsv31_detokenize(const dsv31_model* model, const int32_t* ids, size_t count, char* text, size_t capacity,
                                   size_t* length, dsv31_error* error);
/* The prompt of a conversation as token ids. messages_json: array in OpenAI's form. thinking: 1, 0, or -1 for the template's
 * default. */
DSV31_API int32_t dsv31_chat_prompt(const dsv31_model* model, const char* messages_json, int32_t thinking, int32_t* ids,
                                    size_t capacity, size_t* count, dsv31_error* error);

typedef struct dsv31_session_options {
  size_t struct_size;
  int64_t context; /* tokens; 0: the model's */
  int64_t chunk;   /* tokens a step; default 512 */
  int32_t exact, relaxed;
} dsv31_session_options;
DSV31_API void dsv31_session_options_init(dsv31_session_options* options);
DSV31_API int32_t dsv31_session_new(const dsv31_model* model, const dsv31_session_options* options, dsv31_session** out,
                                    dsv31_error* error);
DSV31_API int32_t dsv31_session_fork(const dsv31_session* session, dsv31_session** out, dsv31_error* error);
DSV31_API void dsv31_session_free(dsv31_session* session);
DSV31_API int32_t dsv31_session_append(dsv31_session* session, const int32_t* ids, size_t count, const dsv31_cancel* cancel,
                                       dsv31_error* error);
DSV31_API int32_t dsv31_session_rewind(dsv31_session* session, int64_t size, dsv31_error* error);
/* Since 2: what tokens that are added from now on attend to: the last `window` tokens, their own included, and the first `sinks`
 * of the session; 0, 0: all. Earlier tokens keep theirs, and the cache keeps everything. DSV31_ARGUMENT for values out of range.
 */
DSV31_API int32_t dsv31_session_set_attention_window(dsv31_session* session, int64_t window, int64_t sinks, dsv31_error* error);
DSV31_API int64_t dsv31_session_size(const dsv31_session* session);
/* Logits after the last token, (vocab_size) floats, valid until the session is used again. */
DSV31_API int32_t dsv31_session_logits(dsv31_session* session, const float** logits, dsv31_error* error);

/* Who guesses tokens ahead; the output is the same with any of them. mtp needs a model opened with mtp (else unsupported). */
typedef enum dsv31_draft { DSV31_DRAFT_NONE = 0, DSV31_DRAFT_MTP, DSV31_DRAFT_NGRAM } dsv31_draft;

/* How drafts went, filled by dsv31_session_generate as far as struct_size reaches. Index i counts the drafts i + 1 tokens ahead.
 */
typedef struct dsv31_draft_stats {
  size_t struct_size;
  int64_t steps; /* of the model, for the tokens after the first; counted without drafts too */
  int64_t off;   /* steps for which drafting was switched off, as no draft paid */
  double cost;   /* of one more draft, as a share of a step without */
  int64_t proposed[16], accepted[16];
} dsv31_draft_stats;

typedef struct dsv31_generate_options {
  size_t struct_size;
  int64_t max_tokens; /* -1: until the model stops */
  uint64_t seed;
  float temperature, top_p, min_p, repeat_penalty;
  int32_t top_k;
  const char* const* stop; /* stop_count strings ending in zero */
  size_t stop_count;
  const dsv31_cancel* cancel;
  /* After each token; text holds whole characters and may be empty. 0 stops. May be null. */
  int32_t (*on_token)(void* user, int32_t token, const char* text, size_t length);
  void* user;
  /* since 2 */
  int32_t draft;            /* a dsv31_draft */
  int32_t draft_max;        /* tokens ahead at most, 1 to 16 */
  double draft_cost;        /* of one more draft, as a share of a step without; -1: measured; 0: always draft_max */
  dsv31_draft_stats* stats; /* may be null */
} dsv31_generate_options;
typedef enum dsv31_finish {
  DSV31_FINISH_END_OF_GENERATION = 0,
  DSV31_FINISH_STOP_STRING,
  DSV31_FINISH_LENGTH,
  DSV31_FINISH_CONTEXT_FULL,
  DSV31_FINISH_STOPPED,
  DSV31_FINISH_CANCELLED
} dsv31_finish;
DSV31_API void dsv31_generate_options_init(dsv31_generate_options* options);
/* *finish is a dsv31_finish, *generated the number of new tokens; both may be null. */
DSV31_API int32_t dsv31_session_generate(dsv31_session* session, const dsv31_generate_options* options, int32_t* finish,
                                         int64_t* generated, dsv31_error* error);

#ifdef __cplusplus
}
#endif

#endif /* DSV31_C_API_H */
