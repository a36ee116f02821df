/* The parts of the guest's first process. */
#ifndef HOMING_INIT_H
#define HOMING_INIT_H

/* Tells the host what failed, and with what; errno says why. */
void note(const char *what, const char *which);

/* ports.c: a port for reading and writing, waited for half a minute, or -1; bytes that were written to it. */
int open_port(const char *name);
unsigned long long port_sent(const char *name);

/* start.c: the command's memory begins on some nodes. */
void start_begin(const char *nodes, const char *command);
void start_enter(void);
int start_waits(void);
void start_look(int out);
void start_end(int out);

/* results.c: sends a changed file, or the changed files below a directory on the root's file system. */
struct timespec;
void send_results(int out, const char *path, const struct timespec *start);

/* clean.c: what a job leaves. The state to come back to, with the settings that the host asked for; the end of all
 * processes but this one; everything else. */
void clean_remember(char *const *tuned, int ntuned);
void clean_processes(void);
void clean_up(void);

/* vmstat.c: what the kernel counted while the command ran. */
void vmstat_begin(void);
void vmstat_end(int out);

#endif
