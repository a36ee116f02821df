/* What the programs inside the guest and the observer agree on. */
#ifndef HOMING_LAB_H
#define HOMING_LAB_H

/* Values that a seccomp filter of every process compares something with, for no other purpose than that the observer
 * sees the comparison being executed in the kernel at each system call. Filters are inherited by all children and by
 * what they execute, and cannot be taken off; the newest runs first. So the kernel itself tells, at each system call,
 * whether the address space in use is one of the program's. The high bit is clear: the kernel compiles such constants
 * inline. */
enum { PROGRAM_MARK = 0x4d6f4831, OTHER_MARK = 0x4d6f4832 };

/* Values of the long no-ops with which a program marks the section that counts (homing_section.h). */
enum { SECTION_BEGIN = 0x4d6f4833, SECTION_END = 0x4d6f4834 };

/* Marks the calling process and all its descendants. 0, or -1 with errno. */
int mark_address_spaces(unsigned mark);

#endif
