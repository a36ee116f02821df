/* A program whose time is known but for a spread, for benches/try.sh.
 *
 *   try-pairs spin MS PERCENT SPREAD    busy for MS of CPU time and PERCENT more, times a random factor: log-normal,
 *                                       of SPREAD %
 *   try-pairs walk MISSES PERCENT       CPU 2 reads node 0: MISSES lines and PERCENT more; prints the time that it took
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../tests/live/bound.h"

enum { LINES = 1 << 14, LINE = 64 };

static volatile uint8_t table[LINES * LINE] __attribute__((aligned(4096)));

static double spent(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Normal, of mean 0 and deviation 1 (Box and Muller). */
static double normal(void) {
    uint32_t drawn[2];
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn) perror("getrandom"), exit(1);
    return sqrt(-2 * log((drawn[0] + 1.0) / 4294967297.0)) * cos(2 * M_PI * drawn[1] / 4294967296.0);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "spin") == 0) {
        double until = atof(argv[2]) / 1e3 * (1 + atof(argv[3]) / 100) * exp(atof(argv[4]) / 100 * normal());
        while (spent() < until) continue;
        return 0;
    }
    if (argc != 4 || strcmp(argv[1], "walk") != 0) return fputs("usage: try-pairs spin|walk ...\n", stderr), 2;
    bind_to(0);
    for (int i = 0; i < LINES; i++) table[i * LINE] = i;
    bind_to(2);
    long misses = atof(argv[2]) * (1 + atof(argv[3]) / 100);
    double begin = now();
    for (long i = 0; i < misses; i++) (void)table[i % LINES * LINE];
    printf("time: %.9f\n", now() - begin);
    return 0;
}
