/* A program under signals of every kind, in threads that each check one thing that a tracer could break. It runs until
 * its input ends, then prints one line a check and exits 0, or says what went wrong and exits 1.
 *
 *     signals TIMER_MICROSECONDS [stopped]
 *
 * With `stopped` somebody stops and continues the process by signals, after which calls may fail with EINTR: that is
 * not checked then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static atomic_int stop, failures;
static atomic_ulong alarms, profiles, timed, queued, suspended, loops;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (atomic_fetch_add(&failures, 1) < 20) {
        char text[256];
        vsnprintf(text, sizeof text, format, arguments);
        fprintf(stdout, "FAILED: %s\n", text);
        fflush(stdout);
    }
    va_end(arguments);
}

static double now(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) fail("clock_gettime: %s", strerror(errno));
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void on_alarm(int signal) { (void)signal; alarms++; }
static void on_profile(int signal) { (void)signal; profiles++; }

/* Timers of timer_create(2): the value must be the one that the timer was made with. */
static void on_timer(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_code != SI_TIMER || info->si_value.sival_int != 4711)
        fail("a timer signal lost its siginfo: code %d", info->si_code);
    timed++;
}

/* Real-time signals with values, sent to one thread: each must come once, in order, with its value and sender. */
static void on_queued(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    unsigned long expected = atomic_fetch_add(&queued, 1);
    if (info->si_code != SI_QUEUE || info->si_pid != getpid() || (unsigned long)info->si_value.sival_int != expected)
        fail("queued signal %lu came with value %d, code %d", expected, info->si_value.sival_int, info->si_code);
}

static __thread atomic_ulong *woken;
static void on_wake(int signal) { (void)signal; if (woken) (*woken)++; }

static void block(int how, int first, ...) {
    sigset_t set;
    sigemptyset(&set);
    if (first == 0) sigfillset(&set);
    else sigaddset(&set, first);
    pthread_sigmask(how, &set, NULL);
}

/* Clocks go forward, calls succeed, and floating-point registers keep their values. */
static void *clocks(void *unused) {
    (void)unused;
    double last = now(), a = 1, b = 0.5;
    pid_t me = getpid();
    while (!stop) {
        for (int i = 0; i < 1000; i++) {
            a = a * 1.0000001 + b;
            b = a - b * 0.25;
            a = a - b + 1;
            if (!(a > -1e300 && a < 1e300)) a = b = 1;
        }
        double t = now();
        if (t < last) fail("the clock went back from %.9f to %.9f", last, t);
        last = t;
        if (syscall(SYS_getpid) != me) fail("getpid gave another process");
        if (syscall(SYS_close, -1) != -1 || errno != EBADF) fail("close(-1) gave errno %d", errno);
        loops++;
    }
    return NULL;
}

static void *receiver(void *unused) {
    (void)unused;
    block(SIG_UNBLOCK, SIGRTMIN + 2);
    while (!stop) {
        struct timespec nap = {0, 300000};
        nanosleep(&nap, NULL);
        for (volatile int i = 0; i < 20000; i++) {}
    }
    return NULL;
}

static void *sender(void *to) {
    block(SIG_SETMASK, 0);
    unsigned long sent = 0;
    while (!stop) {
        if (sent - queued < 50) {
            union sigval value = {.sival_int = (int)sent};
            int error = pthread_sigqueue(*(pthread_t *)to, SIGRTMIN + 2, value);
            if (error == 0) sent++;
            else if (error != EAGAIN && !(error == ESRCH && stop)) fail("pthread_sigqueue: %s", strerror(error));
        } else {
            struct timespec nap = {0, 100000};
            nanosleep(&nap, NULL);
        }
    }
    return (void *)sent;
}

/* Calls that fail with EINTR after a stop: with all signals blocked there is no reason for it. */
static void *waits(void *unused) {
    (void)unused;
    block(SIG_SETMASK, 0);
    int epoll = epoll_create1(0), pair[2], semaphore = semget(IPC_PRIVATE, 1, 0600);
    struct timeval limit = {0, 5000};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (!stop) {
        struct epoll_event event;
        double begin = now();
        int got = epoll_wait(epoll, &event, 1, 5);
        if (got != 0) fail("epoll_wait gave %d, errno %d", got, errno);
        if (now() - begin < 0.0049) fail("epoll_wait ended early");
        char byte;
        if (recv(pair[0], &byte, 1, 0) != -1 || errno != EAGAIN) fail("recv with a time limit: errno %d", errno);
        if (read(pair[0], &byte, 1) != -1 || errno != EAGAIN) fail("read with a time limit: errno %d", errno);
        struct sembuf wait = {0, -1, 0};
        struct timespec five = {0, 5000000};
        if (semtimedop(semaphore, &wait, 1, &five) != -1 || errno != EAGAIN) fail("semtimedop: errno %d", errno);
        sigset_t none;
        sigemptyset(&none);
        sigaddset(&none, SIGRTMAX);
        if (sigtimedwait(&none, NULL, &five) != -1 || errno != EAGAIN) fail("sigtimedwait: errno %d", errno);
        begin = now();
        if (nanosleep(&five, NULL) != 0) fail("nanosleep: errno %d", errno);
        if (now() - begin < 0.0049) fail("nanosleep ended early");
    }
    semctl(semaphore, 0, IPC_RMID);
    return NULL;
}

/* sigsuspend waits for SIGUSR2 alone, and returns only when its handler has run. Other signals are free outside of it.
 * */
static void *suspends(void *unused) {
    (void)unused;
    static atomic_ulong wakes;
    woken = &wakes;
    block(SIG_BLOCK, SIGUSR2);
    sigset_t only;
    sigfillset(&only);
    sigdelset(&only, SIGUSR2);
    while (!stop) {
        unsigned long before = wakes;
        if (sigsuspend(&only) != -1 || errno != EINTR) fail("sigsuspend: errno %d", errno);
        if (wakes == before) fail("sigsuspend returned without its signal");
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, NULL, &mask);
        if (!sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGALRM)) fail("sigsuspend left another mask");
        suspended++;
    }
    return NULL;
}

static void *nothing(void *value) { return value; }

/* Children by vfork and fork, and threads that begin and end. */
static void *spawns(void *unused) {
    (void)unused;
    block(SIG_SETMASK, 0);
    while (!stop) {
        pid_t child;
        int status = 0;
        char *arguments[] = {"true", NULL};
        if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) != 0)
            fail("posix_spawn: %s", strerror(errno));
        else if (waitpid(child, &status, 0) != child || status != 0)
            fail("a spawned program ended with status %x", status);
        child = fork();
        if (child == 0) _exit(7);
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
            fail("a forked child ended with status %x", status);
        pthread_t thread;
        void *value = NULL;
        if (pthread_create(&thread, NULL, nothing, &stop) != 0) fail("pthread_create");
        else if (pthread_join(thread, &value) != 0 || value != &stop) fail("pthread_join");
    }
    return NULL;
}

static void handle(int signal, void (*plain)(int), void (*full)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_flags = SA_RESTART};
    if (full) action.sa_sigaction = full, action.sa_flags |= SA_SIGINFO;
    else action.sa_handler = plain;
    sigaction(signal, &action, NULL);
}

int main(int count, char **arguments) {
    long period = count > 1 ? atol(arguments[1]) : 1000;
    handle(SIGALRM, on_alarm, NULL);
    handle(SIGPROF, on_profile, NULL);
    handle(SIGRTMIN + 1, NULL, on_timer);
    handle(SIGRTMIN + 2, NULL, on_queued);
    handle(SIGUSR2, on_wake, NULL);
    block(SIG_BLOCK, SIGRTMIN + 2);

    pthread_t threads[7];
    pthread_create(&threads[0], NULL, clocks, NULL);
    pthread_create(&threads[1], NULL, clocks, NULL);
    pthread_create(&threads[2], NULL, receiver, NULL);
    pthread_create(&threads[3], NULL, sender, &threads[2]);
    pthread_create(&threads[4], NULL, count > 2 ? nothing : waits, NULL);
    pthread_create(&threads[5], NULL, suspends, NULL);
    pthread_create(&threads[6], NULL, spawns, NULL);

    struct itimerval every = {{0, period}, {0, period}};
    setitimer(ITIMER_REAL, &every, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 4711};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec spec = {{0, period * 1000}, {0, period * 1000}};
    timer_settime(timer, 0, &spec, NULL);
    printf("ready\n");
    fflush(stdout);

    /* The main thread waits in read, with handlers that restart it, and keeps the suspended thread going from there on.
     * */
    char byte;
    ssize_t got;
    while ((got = read(0, &byte, 1)) == 1) pthread_kill(threads[5], SIGUSR2);
    if (got < 0) fail("read: %s", strerror(errno));
    stop = 1;
    void *sent = NULL;
    for (int i = 0; i < 7; i++) {
        if (i == 5) pthread_kill(threads[5], SIGUSR2);
        pthread_join(threads[i], i == 3 ? &sent : NULL);
    }
    /* The receiver may have ended before the last ones. */
    if ((unsigned long)sent < queued || (unsigned long)sent > queued + 50)
        fail("sent %lu queued signals, got %lu", (unsigned long)sent, queued);
    if (!alarms || !profiles || !timed || !queued || !suspended || !loops) fail("something never happened");
    printf("alarms=%lu profiles=%lu timed=%lu queued=%lu suspended=%lu loops=%lu failures=%d\n", alarms, profiles,
           timed, queued, suspended, loops, failures);
    return failures ? 1 : 0;
}
