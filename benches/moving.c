/* For benches/moving-threads.sh: 40 iterations of two marked phases. Four threads each sweep their quarter of one array
 * in the first phase and of another in the second. Accesses are volatile: no compiler merges or drops any. */
#include "homing.h"
#include <omp.h>
#include <stdlib.h>

enum { THREADS = 4, PAGES = 16, WORDS = 512, ITERATIONS = 40, SWEEPS = 2 };

static volatile long arrays[2][THREADS * PAGES * WORDS] __attribute__((aligned(4096)));

int main(void) {
    omp_set_num_threads(THREADS);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        for (int phase = 0; phase < 2; phase++) {
            homing_phase(phase ? "second" : "first");
#pragma omp parallel
            for (int sweep = 0; sweep < SWEEPS; sweep++)
                for (long i = 0; i < PAGES * WORDS; i++) arrays[phase][omp_get_thread_num() * PAGES * WORDS + i] += i;
        }
        homing_iteration();
    }
    return 0;
}
