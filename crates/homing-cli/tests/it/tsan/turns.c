/* Threads that run one after the other, so that each run is the same: they use the same rows, which lie across borders
 * of pages, a table at random, and memory that comes and goes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 3000, TABLE = 1 << 16, SCRATCH = 1 << 15 };

struct row {
  char head[21];
  double value;
  long counts[4];
  char tail[40];
} __attribute__((packed));

static struct row *rows;
static int ended[2];
static double table[TABLE];
static unsigned long state = 1;

static unsigned next(void) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return state >> 33;
}

static void *work(void *number) {
  long thread = (long)number;
  char *scratch = mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(scratch, 1, SCRATCH);
  for (int i = thread * 500; i < ROWS - 500; i++) {
    struct row *row = &rows[i];
    row->value += table[next() % TABLE] + scratch[i * 7 % SCRATCH];
    for (int j = 0; j < 4; j++) row->counts[j] += row->head[j] + j;
    if (i % 3 == 0) memcpy(row->tail, row->head, sizeof row->head);
  }
  for (int i = thread * 8192; i < (thread + 2) * 8192; i++) table[i] = table[i] * 0.5 + i;
  munmap(scratch, SCRATCH);
  if (write(ended[1], "", 1) != 1) abort();
  return NULL;
}

int main(void) {
  if (pipe(ended)) return 1;
  rows = calloc(ROWS, sizeof *rows);
  for (int round = 0; round < 4; round++)
    for (long thread = 0; thread < 4; thread++) {
      pthread_t one;
      char byte;
      if (pthread_create(&one, NULL, work, (void *)thread) || read(ended[0], &byte, 1) != 1) return 1;
      /* The thread is gone when it is joined: how a wait for it goes is not the same in each run. */
      usleep(20000);
      pthread_join(one, NULL);
    }
  double sum = 0;
  for (int i = 0; i < ROWS; i++) sum += rows[i].value;
  printf("%g\n", sum);
  return 0;
}
