// The environment of all tests, also of those that are run by hand: what is set already stays.
#include <cstdlib>

// What a driver of OpenCL loses is not ours. (Asked for by the sanitizer.)
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:libpocl\nleak:libLLVM-15\n"; }  // NOLINT

namespace {

const bool prepared = [] {
  ::setenv("QUERN_CACHE_DIR", QUERN_TEST_CACHE,
           0);                        // not the cache of the user   NOLINT(concurrency-mt-unsafe)
  ::setenv("CACHE_LIMIT", "256", 0);  // fuzzers make many kernels   NOLINT(concurrency-mt-unsafe)
  ::setenv("GUARD", "1", 0);          // NOLINT(concurrency-mt-unsafe)
  return true;
}();

}  // namespace
