/* options.h: the options of the runtime, one row each in options.def.
 * Layer: core.  May include: core. */
#ifndef JITC_CORE_OPTIONS_H
#define JITC_CORE_OPTIONS_H
#include "core/error.h"
#include "core/sync.h"

/** Numbers may change while others read them: each is read and written as one. Texts are changed
 * in place. */
typedef struct jitc_options {
#define OPTION_BOOL(name)       _Atomic bool name;
#define OPTION_INT(name)        _Atomic int64_t name;
#define OPTION_TEXT(name)       char name[512];
#define OPTION(name, kind, ...) OPTION_##kind(name)
#include "core/options.def"
#undef OPTION_BOOL
#undef OPTION_INT
#undef OPTION_TEXT
} jitc_options;

/** Fill `o` with the defaults, then with the environment. Where a value does not parse the default
 * stays. */
void jitc_options_init(jitc_options *o);
/** Log a warning for each value in the environment that does not parse. Under no lock: the log's
 * callback is user code. */
void jitc_options_check_environment(void);
/** Set one option from text. JIT_INVALID_ARGUMENT if there is no such option or the text is no
 *  value of its kind; then nothing is changed. */
jit_status jitc_options_set(jitc_options *o, const char *name, const char *value);
/** Print one option's value into `text`. JIT_INVALID_ARGUMENT if there is none of that name. */
jit_status jitc_options_get(const jitc_options *o, const char *name, char *text, size_t size);
#endif
