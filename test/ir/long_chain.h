// How long the long chains of tests are: long enough that recursion would run out of stack, short under
// sanitizers.
#pragma once

namespace quern {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kLongChain = 100'000;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr int kLongChain = 100'000;
#else
inline constexpr int kLongChain = 1'000'000;
#endif
#else
inline constexpr int kLongChain = 1'000'000;
#endif

}  // namespace quern
