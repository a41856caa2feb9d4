// Symbol visibility and the ABI namespace. Everything that is not marked DSV31_API stays hidden, in static builds too.
#pragma once

#define DSV31_VERSION_MAJOR 0
#define DSV31_VERSION_MINOR 1
#define DSV31_VERSION_PATCH 0

#if defined(_WIN32) && defined(DSV31_SHARED)
#ifdef DSV31_BUILDING
#define DSV31_API __declspec(dllexport)
#else
#define DSV31_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define DSV31_API __attribute__((visibility("default")))
#else
#define DSV31_API
#endif
