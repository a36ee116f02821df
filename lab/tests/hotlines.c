/* Eight lines that are hotter than the rest: a thread on CPU 2 sweeps through `cool`, and after every 4096 lines of it,
 * more than a cache of 128 KiB holds, writes eight lines of `hot`: eight times as often as any other line.
 *
 *   hotlines SECONDS
 */
#define _GNU_SOURCE
#include <stdint.h>

#include "../../tests/live/bound.h"

enum { LINE = 64, HOT = 8, APART = 16, COOL = 1 << 15, BETWEEN = 4096 };

static volatile uint8_t hot[HOT * APART * LINE] __attribute__((aligned(4096)));
static volatile uint8_t cool[COOL * LINE] __attribute__((aligned(4096)));

int main(int argc, char **argv) {
    if (argc != 2) return fputs("usage: hotlines SECONDS\n", stderr), 2;
    bind_to(2);
    double end = now() + atof(argv[1]);
    while (now() < end)
        for (int i = 0; i < COOL; i++) {
            cool[i * LINE]++;
            for (int j = 0; i % BETWEEN == 0 && j < HOT; j++) hot[j * APART * LINE]++;
        }
    return 0;
}
