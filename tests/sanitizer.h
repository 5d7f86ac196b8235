/* sanitizer.h: with which sanitizers the tests are built.
 * Layer: tests.  May include: nothing.
 *
 * A child that is forked while other threads run finds the locks of AddressSanitizer's allocator as
 * they were at that moment: one that another thread held stays locked for ever, since the sanitizer
 * has no handler for forks. Tests that fork at any moment are left out where JITC_HAS_ASAN is 1;
 * they run in every other build. */
#ifndef JITC_TESTS_SANITIZER_H
#define JITC_TESTS_SANITIZER_H

#if defined(__has_feature) /* clang */
#    define JITC_HAS_ASAN __has_feature(address_sanitizer)
#    define JITC_HAS_TSAN __has_feature(thread_sanitizer)
#else /* gcc */
#    ifdef __SANITIZE_ADDRESS__
#        define JITC_HAS_ASAN 1
#    else
#        define JITC_HAS_ASAN 0
#    endif
#    ifdef __SANITIZE_THREAD__
#        define JITC_HAS_TSAN 1
#    else
#        define JITC_HAS_TSAN 0
#    endif
#endif
#endif
