/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Names: the program's marks and mapped files. A name is sent once, when it is first used; afterwards its id stands
 * for it. */
#include "runtime.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL
enum { MAPS_BYTES = 1 << 18 };

static uint32_t next_name;
/* Sends a name under a new id, which other threads may then use, too. */
word homing_name_as(unsigned operation, const char *text, unsigned length)
{
   if (length > HOMING_NAME_BYTES)
      length = HOMING_NAME_BYTES;
   unsigned words = (length + 7) / 8;
   word *room = homing_reserve(1 + words);
   if (room == NULL)
      return 0;
   word id = __atomic_add_fetch(&next_name, 1, __ATOMIC_RELAXED);
   char *bytes = (char *)(room + 1);
   for (unsigned i = 0; i < 8 * words; i++) /* not memcpy: it is interposed */
      bytes[i] = i < length ? text[i] : 0;
   homing_head(room, HOMING_WORD(operation, id << HOMING_NAME_ID_AT | length));
   homing_publish();
   return id;
}

word homing_name(const char *text, unsigned length) { return homing_name_as(HOMING_NAME, text, length); }

/* A program has few marks: their names are kept. */
enum { KEPT = 64 };
static struct {
   char text[HOMING_MARK_NAME + 1];
   word name;
} kept[KEPT];
static word marks;

void homing_forget_marks(void)
{
   for (unsigned i = 0; i < KEPT; i++)
      kept[i].name = 0;
   marks = 0;
}

/* What ../../include/homing.h calls. */
void EXPORT homing_mark(const char *name)
{
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
      kept[at].name = homing_name(name, length);
   }
   homing_send(2, HOMING_WORD(HOMING_MARK, marks), kept[at].name, 0, 0, 0);
   marks++;
   if (homing_region_awaited)
      homing_region_mark(name);
   homing_window_mark(name);
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
   word name = has_path ? homing_name(line + path, length - (unsigned)path) : 0;
   homing_send(5, HOMING_WORD(HOMING_MMAP, protection << 32 | sharing), start, end - start, offset, name);
}

/* Objects that the dynamic linker has loaded so far, as it counts them. */
static unsigned long long known_loads;

struct search {
   unsigned objects; /* there now */
   unsigned passed;  /* of them: not the ones looked for */
   unsigned long long loads;
};

static int count_object(struct dl_phdr_info *info, size_t size, void *argument)
{
   (void)size;
   struct search *search = argument;
   search->objects++;
   search->loads = info->dlpi_adds;
   return 0;
}

/* What lay there before is gone, though the dynamic linker told nobody. */
static void send_object(const struct dl_phdr_info *object)
{
   char path[PATH_MAX];
   homing_self.inside++;
   unsigned length = realpath(object->dlpi_name, path) == NULL ? 0 : (unsigned)strlen(path);
   homing_self.inside--;
   word name = length == 0 ? 0 : homing_name(path, length);
   for (unsigned i = 0; i < object->dlpi_phnum; i++) {
      const ElfW(Phdr) *part = &object->dlpi_phdr[i];
      if (part->p_type != PT_LOAD)
         continue;
      word start = (object->dlpi_addr + part->p_vaddr) & -PAGE, end = object->dlpi_addr + part->p_vaddr + part->p_memsz;
      word protection = (part->p_flags & PF_R ? PROT_READ : 0) | (part->p_flags & PF_W ? PROT_WRITE : 0) |
                        (part->p_flags & PF_X ? PROT_EXEC : 0);
      homing_cut((struct event){5, {HOMING_WORD(HOMING_MMAP, protection << 32 | MAP_PRIVATE | MAP_FIXED), start,
                                    (end - start + PAGE - 1) & -PAGE, part->p_offset & -PAGE, name}});
   }
}

static int send_new(struct dl_phdr_info *info, size_t size, void *argument)
{
   (void)size;
   struct search *search = argument;
   if (search->passed > 0) {
      search->passed--;
      return 0;
   }
   send_object(info);
   homing_region_look(info);
   return 0;
}

/* Each compiled file of a library begins with a call, while the library is being loaded: the first one tells of the
 * library and of those that came with it. They are the last ones in the dynamic linker's list. Who calls does not say
 * which it is: compilers jump to us from the end of the library's constructor. */
void homing_send_libraries(void)
{
   struct search search = {0};
   if (!homing_active || homing_self.inside)
      return;
   dl_iterate_phdr(count_object, &search);
   unsigned long long new = search.loads - __atomic_exchange_n(&known_loads, search.loads, __ATOMIC_RELAXED);
   search.passed = new < search.objects ? search.objects - (unsigned)new : 0;
   if (new > 0)
      dl_iterate_phdr(send_new, &search);
}

void homing_send_maps(void)
{
   struct search search = {0};
   dl_iterate_phdr(count_object, &search);
   known_loads = search.loads;
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
