/* first_result.c: the smallest program with a result, run by bench_start.c. Built once per engine.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * Prints one byte when the result is there. */
#include "engine.h"

#include <stdio.h>
#include <unistd.h>

int main(void) {
    static const float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    float result[8] = {0};
    engine e;
    if (!ENGINE_OPEN(&e) || !e.start(&e, 1))
        return 2;
    engine_var x = e.floats(&e, data, 8);
    engine_var y = e.add(e.mul(x, e.literal(&e, 2)), e.literal(&e, 1));
    if (!e.evaluate(&e, y) || !e.read(&e, y, result, 8) || result[7] != 15)
        return 3;
    if (write(STDOUT_FILENO, "!", 1) != 1)
        return 4;
    e.stop(&e);
    /* The libraries' own shutdown has been called; a peer's destructors are not measured. */
    _exit(0);
}
