/* A program that executes itself again and again, each time from a thread that is not its first while others run: the
 * kernel ends those, and gives the thread the number of the process. At the end it prints how often.
 *
 *     execs TIMES
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *spin(void *unused) {
    (void)unused;
    for (;;) for (volatile int i = 0; i < 1000; i++) {}
    return NULL;
}

static void *again(void *arguments) {
    char **with = arguments, left[32];
    snprintf(left, sizeof left, "%d", atoi(with[1]) - 1);
    char *next[] = {with[0], left, with[2], NULL};
    /* Long enough to be met. */
    for (volatile int i = 0; i < 10000000; i++) {}
    execv("/proc/self/exe", next);
    perror("execv");
    exit(1);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    if (arguments[1] == NULL || atoi(arguments[1]) <= 0) {
        printf("executed %s times\n", arguments[2]);
        return 0;
    }
    if (atoi(arguments[1]) == atoi(arguments[2])) {
        printf("ready\n");
        fflush(stdout);
        getchar();
    }
    pthread_t thread;
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, again, arguments);
    for (;;) pause();
}
