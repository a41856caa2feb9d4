// All of the library for its users. Five lines make a program:
//
//   dsv31::Runtime runtime;
//   auto model = dsv31::Model::open(runtime, "model.gguf");
//   dsv31::Session session(model);
//   session.append(model.tokenizer().encode("The capital of France is", {.bos = model.tokenizer().adds_bos()}));
//   std::cout << session.generate({.max_tokens = 16}).text << '\n';
//
// Everything throws dsv31::Error and nothing else. Nothing is global. See the single headers for units, shapes and threads.
#pragma once

#include "dsv31/attention_window.h"
#include "dsv31/chat.h"
#include "dsv31/conversation.h"
#include "dsv31/convert.h"
#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/model.h"
#include "dsv31/profile.h"
#include "dsv31/runtime.h"
#include "dsv31/sampler.h"
#include "dsv31/session.h"
#include "dsv31/tokenizer.h"
