/* Prints what a program can see of itself, and does what programs do: the same with and without the preloaded library.
   `plain fork` also leaves a child that executes nothing, prints its number, and ends it when the input ends.
   `plain busy` runs until there is input. */
#include <errno.h>
#include <pthread.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *number)
{
	*(int *)number += 1;
	return number;
}

static int entries(const char *path)
{
	int count = 0;
	DIR *directory = opendir(path);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int status_of(pid_t child)
{
	int status;
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
	int first_errno = errno, number = 1, blocked = 0, handled = 0, orphans;
	char directory[4096];
	sigset_t mask;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int signal = 1; signal < NSIG; signal++) {
		struct sigaction action;
		blocked += sigismember(&mask, signal) == 1;
		handled += sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
	}
	orphans = waitpid(-1, NULL, __WALL | WNOHANG) != -1 || errno != ECHILD;
        printf("errno %d, %d blocked, %d handled, %d children, %d threads, %d descriptors, in %s\n", first_errno,
               blocked, handled, orphans, entries("/proc/self/task") - 2, entries("/proc/self/fd"),
               getcwd(directory, sizeof directory));

        pthread_t other;
	pthread_create(&other, NULL, thread, &number);
	pthread_join(other, NULL);
	pid_t forked = fork();
	if (forked == 0)
		_exit(number + 1);
	int status = status_of(forked);
	pid_t executing = fork();
	if (executing == 0) {
		execlp("sh", "sh", "-c", "exit 5", NULL);
		_exit(127);
	}
	printf("thread %d, forked %d, executed %d\n", number, status, status_of(executing));

	pid_t left = argc > 1 && strcmp(argv[1], "fork") == 0 ? fork() : -1;
	if (left == 0)
		for (;;)
			pause();
	if (left > 0)
		printf("%d\n", left);
	fflush(stdout);
	struct pollfd input = {0, POLLIN, 0};
	if (argc > 1 && strcmp(argv[1], "busy") == 0)
		while (poll(&input, 1, 0) == 0)
			for (volatile int i = 0; i < 1000000; i++)
				;
	while (getchar() != EOF)
		;
	if (left > 0) {
		kill(left, SIGKILL);
		waitpid(left, NULL, 0);
	}
	return 7;
}
