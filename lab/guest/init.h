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

/* vmstat.c: what the kernel counted while the command ran. */
void vmstat_begin(void);
void vmstat_end(int out);

#endif
