/* engine.c: programs that every engine traces in the same way.
 * Layer: benchmarks. May include: nothing of the library. */
#include "engine.h"

engine_var engine_chain(const engine *e, engine_var x, engine_var y, size_t n, uint64_t seed) {
    uint64_t state = seed | 1;
    engine_var v = e->retain(e, x);
    for (size_t i = 0; i < n; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        engine_var other = (state >> 41) & 1 ? x : y;
        engine_var next = (state >> 40) & 1 ? e->mul(v, other) : e->add(v, other);
        e->release(v);
        v = next;
    }
    return v;
}
