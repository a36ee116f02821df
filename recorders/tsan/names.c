/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Names: the program's marks, call-sites ("object+0xoffset", with the function where the symbol table has it) and mapped
 * files. A name is sent once, when it is first used; afterwards its id stands for it. */
#include "runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SITES = 1 << 14, MAPS_BYTES = 1 << 18, NAME_MAX_BYTES = 8 * (HOMING_RESERVE_MAX - 1) };

static uint32_t next_name;
/* Open addressing by return address; an entry is claimed by its key and filled by its claimer. */
static struct {
   word key;
   word name;
} sites[SITES];

/* Sends a name under a new id. */
static word send_name(const char *text, unsigned length)
{
   if (length > NAME_MAX_BYTES)
      length = NAME_MAX_BYTES;
   unsigned words = (length + 7) / 8;
   word *room = homing_reserve(1 + words);
   if (room == NULL)
      return 0;
   word id = __atomic_add_fetch(&next_name, 1, __ATOMIC_RELAXED);
   room[0] = HOMING_WORD(HOMING_NAME, id << 24 | length);
   room[words] = 0;
   if (words == 0)
      room[0] = HOMING_WORD(HOMING_NAME, id << 24);
   char *bytes = (char *)(room + 1);
   for (unsigned i = 0; i < 8 * words; i++) /* not memcpy: it is interposed */
      bytes[i] = i < length ? text[i] : 0;
   return id;
}

word homing_name(const char *text, unsigned length) { return send_name(text, length); }

/* What ../../include/homing.h calls. A program has few marks: their names are kept. */
void EXPORT homing_mark(const char *name)
{
   enum { KEPT = 64 };
   static struct {
      char text[HOMING_MARK_NAME + 1];
      word name;
   } kept[KEPT];
   static word marks;
   if (!homing_active || homing_self.inside)
      return;
   unsigned length = 0, at = 0;
   while (length < HOMING_MARK_NAME && name[length] != 0)
      length++;
   homing_self.inside++; /* memcmp is interposed */
   while (at < KEPT - 1 && kept[at].name != 0 &&
          (memcmp(kept[at].text, name, length) != 0 || kept[at].text[length] != 0))
      at++;
   homing_self.inside--;
   if (kept[at].name == 0 || at == KEPT - 1) {
      for (unsigned i = 0; i < length; i++)
         kept[at].text[i] = name[i];
      kept[at].text[length] = 0;
      kept[at].name = send_name(name, length);
   }
   homing_send(2, HOMING_WORD(HOMING_MARK, marks), kept[at].name, 0, 0, 0);
   marks++;
}

static const char *base_name(const char *path)
{
   const char *slash = path == NULL ? NULL : strrchr(path, '/');
   return slash == NULL ? path : slash + 1;
}

static word name_site(word site)
{
   char text[512];
   Dl_info info;
   int length;
   homing_self.inside++; /* the string functions below are interposed */
   if (dladdr((void *)site, &info) == 0 || info.dli_fname == NULL)
      length = snprintf(text, sizeof text, "0x%lx", (unsigned long)site);
   else if (info.dli_sname != NULL)
      length = snprintf(text, sizeof text, "%s+0x%lx (%s)", base_name(info.dli_fname),
                        (unsigned long)(site - (word)info.dli_fbase), info.dli_sname);
   else
      length = snprintf(text, sizeof text, "%s+0x%lx", base_name(info.dli_fname),
                        (unsigned long)(site - (word)info.dli_fbase));
   homing_self.inside--;
   return send_name(text, (unsigned)length < sizeof text ? (unsigned)length : sizeof text - 1);
}

word homing_site(word site)
{
   if (!homing_active || homing_self.inside)
      return 0;
   for (word probe = site * 0x9e3779b97f4a7c15ULL >> 50, tries = 0; tries < SITES; probe++, tries++) {
      word *key = &sites[probe % SITES].key, seen = __atomic_load_n(key, __ATOMIC_ACQUIRE);
      if (seen == 0 && __atomic_compare_exchange_n(key, &seen, site, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
         word name = name_site(site);
         __atomic_store_n(&sites[probe % SITES].name, name, __ATOMIC_RELEASE);
         return name;
      }
      if (seen == site) {
         word name = __atomic_load_n(&sites[probe % SITES].name, __ATOMIC_ACQUIRE);
         return name != 0 ? name : name_site(site); /* its claimer is still at it: a second id for the same text */
      }
   }
   return name_site(site); /* more call-sites than the table holds: correct, only longer */
}

/* One line of /proc/self/maps: "start-end rwxp offset dev inode   path". */
static void send_map(const char *line, unsigned length)
{
   unsigned long start, end, offset;
   char flags[5];
   int path = 0;
   if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %n", &start, &end, flags, &offset, &path) < 4)
      return;
   if (start >> 47 || strstr(line, "memfd:homing") != NULL) /* the vsyscall page; the wire itself */
      return;
   word protection = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
                     (flags[2] == 'x' ? PROT_EXEC : 0);
   int has_path = path > 0 && (unsigned)path < length;
   word sharing = (flags[3] == 's' ? MAP_SHARED : MAP_PRIVATE) | (has_path && line[path] == '/' ? 0 : MAP_ANONYMOUS);
   word name = has_path ? send_name(line + path, length - (unsigned)path) : 0;
   word *room = homing_reserve(5);
   if (room == NULL)
      return;
   room[0] = HOMING_WORD(HOMING_MMAP, protection << 32 | sharing);
   room[1] = start;
   room[2] = end - start;
   room[3] = offset;
   room[4] = name;
}

void homing_send_maps(void)
{
   char *text = (char *)syscall(SYS_mmap, NULL, MAPS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
   if (file < 0 || text == MAP_FAILED) {
      homing_say("homing: cannot read /proc/self/maps: pages of the program's own image will have no names\n");
      return;
   }
   long bytes = 0, got;
   while (bytes < MAPS_BYTES - 1 && (got = syscall(SYS_read, file, text + bytes, MAPS_BYTES - 1 - bytes)) > 0)
      bytes += got;
   syscall(SYS_close, file);
   text[bytes] = 0;
   char *line = text;
   for (char *end = line; *end != 0; end++)
      if (*end == '\n') {
         *end = 0;
         send_map(line, (unsigned)(end - line));
         line = end + 1;
      }
   syscall(SYS_munmap, text, MAPS_BYTES);
}
