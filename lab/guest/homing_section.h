/* Marks of the section that counts, for programs that run in the lab: with `homing lab run --marked` the observer
 * counts only between the two. They are long no-ops: elsewhere they do nothing, and the lab runs programs for x86-64
 * only. */
#ifndef HOMING_SECTION_H
#define HOMING_SECTION_H

#ifdef __x86_64__
#define HOMING_SECTION_BEGIN() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x33,0x48,0x6f,0x4d" ::: "memory")
#define HOMING_SECTION_END() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x34,0x48,0x6f,0x4d" ::: "memory")
#else
#define HOMING_SECTION_BEGIN() ((void)0)
#define HOMING_SECTION_END() ((void)0)
#endif

#endif
