/* What the libraries here share: whether somebody has confined this program, who may have it killed for a system call
   that it does not make itself. */

#ifndef HOMING_CONFINED_H
#define HOMING_CONFINED_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number of filters of system calls that this thread has; of a kernel before 5.9, its mode of seccomp. */
static unsigned long filters(void)
{
	char status[8192];
	int file = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? 0 : read(file, status, sizeof status - 1);
	if (file >= 0)
		close(file);
	status[length > 0 ? length : 0] = '\0';
	const char *at = strstr(status, "\nSeccomp_filters:");
	at = at ? at : strstr(status, "\nSeccomp:");
	return at ? strtoul(strchr(at, ':') + 1, NULL, 10) : 0;
}

#endif
