/* dlopen, load a model, answer, dlclose: fifty times. Threads and mappings of the library must be gone each time. */
#include <dlfcn.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "dsv31/c_api.h"

static int count(const char* path) {
  int n = 0;
  DIR* d = opendir(path);
  if (!d) return -1;
  while (readdir(d)) ++n;
  closedir(d);
  return n;
}

static int mapped(const char* name) {
  char line[1024];
  int n = 0;
  FILE* f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) n += strstr(line, name) != NULL;
  if (f) fclose(f);
  return n;
}

int main(int argc, char** argv) {
  int round, threads, files;
  if (argc != 3) return 2;
  threads = count("/proc/self/task");
  files = count("/proc/self/fd");
  for (round = 0; round < 50; ++round) {
    void* lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int32_t (*runtime_new)(const dsv31_runtime_options*, dsv31_runtime**, dsv31_error*);
    int32_t (*model_open)(dsv31_runtime*, const char*, const dsv31_model_options*, dsv31_model**, dsv31_error*);
    int32_t (*session_new)(const dsv31_model*, const dsv31_session_options*, dsv31_session**, dsv31_error*);
    int32_t (*append)(dsv31_session*, const int32_t*, size_t, const dsv31_cancel*, dsv31_error*);
    void (*session_free)(dsv31_session*);
    void (*model_free)(dsv31_model*);
    void (*runtime_free)(dsv31_runtime*);
    dsv31_runtime* r = NULL;
    dsv31_model* m = NULL;
    dsv31_session* s = NULL;
    int32_t ids[3] = {5, 6, 7};
    if (!lib) {
      fprintf(stderr, "%s\n", dlerror());
      return 3;
    }
    *(void**)&runtime_new = dlsym(lib, "dsv31_runtime_new");
    *(void**)&model_open = dlsym(lib, "dsv31_model_open");
    *(void**)&session_new = dlsym(lib, "dsv31_session_new");
    *(void**)&append = dlsym(lib, "dsv31_session_append");
    *(void**)&session_free = dlsym(lib, "dsv31_session_free");
    *(void**)&model_free = dlsym(lib, "dsv31_model_free");
    *(void**)&runtime_free = dlsym(lib, "dsv31_runtime_free");
    if (runtime_new(NULL, &r, NULL) || model_open(r, argv[2], NULL, &m, NULL) || session_new(m, NULL, &s, NULL) || append(s, ids, 3, NULL, NULL))
      return 4;
    session_free(s);
    model_free(m);
    runtime_free(r);
    dlclose(lib);
    if (count("/proc/self/task") != threads || count("/proc/self/fd") != files || mapped("libdsv31") != 0) {
      fprintf(stderr, "round %d left something behind: %d threads, %d files, %d mappings\n", round, count("/proc/self/task"), count("/proc/self/fd"),
              mapped("libdsv31"));
      return 5;
    }
  }
  return 0;
}
