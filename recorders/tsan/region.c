/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The region of interest: from the first entry of one function, or a mark, to the next such after that. Compiled code
 * announces entries by a call from within the function, so the functions are looked up by name in the files that hold
 * such code, and the call's return address says which is entered. The runtime only says where the region begins and
 * ends; homing drops what lies outside, and keeps who touched each page first. */
#include "runtime.h"
#include "../include/homing_function.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Functions of these names: a template and its variants may be many. */
enum { FUNCTIONS = 256 };
enum { BEGINS = 1, ENDS = 2 };

static const char *from, *to;
static enum { BEFORE, INSIDE, AFTER } place;
int homing_region_awaited;

static struct {
   word start, bytes;
   unsigned what;
} functions[FUNCTIONS];
static unsigned known;

typedef char *demangle(const char *symbol, char *out, size_t *length, int *status);

static int is_called(const char *symbol, const char *plain, const char *name)
{
   return name != NULL &&
          (homing_is_called(symbol, name) || (plain && homing_is_called(plain, name) && !homing_is_part(plain)));
}

/* Whether a symbol begins the region, or ends it. */
static unsigned role(const char *symbol, demangle *demangler)
{
   int status;
   char *plain = demangler && homing_behind(symbol, "_Z") ? demangler(symbol, NULL, NULL, &status) : NULL;
   unsigned what = (is_called(symbol, plain, from) ? BEGINS : 0) | (is_called(symbol, plain, to) ? ENDS : 0);
   free(plain);
   return what;
}

static void add(word start, word bytes, unsigned what)
{
   if (known == FUNCTIONS) {
      homing_say("homing: --from, --to: more than 256 functions have that name: the further ones do not count\n");
      return;
   }
   functions[known].start = start;
   functions[known].bytes = bytes;
   functions[known].what = what;
   __atomic_store_n(&known, known + 1, __ATOMIC_RELEASE);
}

/* A table of symbols and their names within a file; count is 0 if it is not whole. */
struct table {
   const ElfW(Sym) * symbols;
   size_t count;
   const char *names;
   size_t names_bytes;
};

static struct table table_at(const char *file, size_t bytes, const ElfW(Shdr) * sections, unsigned count, unsigned at)
{
   const ElfW(Shdr) *table = &sections[at], *names = &sections[table->sh_link < count ? table->sh_link : at];
   int whole = table->sh_offset <= bytes && table->sh_size <= bytes - table->sh_offset && names->sh_offset <= bytes &&
               names->sh_size <= bytes - names->sh_offset && names->sh_size > 0 &&
               file[names->sh_offset + names->sh_size - 1] == 0;
   if ((table->sh_type != SHT_SYMTAB && table->sh_type != SHT_DYNSYM) || !whole)
      return (struct table){0};
   return (struct table){(const void *)(file + table->sh_offset), table->sh_size / sizeof(ElfW(Sym)),
                         file + names->sh_offset, names->sh_size};
}

/* Only compiled files call the runtime: others need no look at all their symbols. */
static int is_instrumented(struct table table)
{
   for (size_t i = 0; i < table.count; i++) {
      const char *end = table.symbols[i].st_name < table.names_bytes
                            ? homing_behind(table.names + table.symbols[i].st_name, "__tsan_func_entry")
                            : NULL;
      if (end != NULL && *end == 0)
         return 1;
   }
   return 0;
}

static void take_functions(struct table table, word bias)
{
   demangle *demangler = (demangle *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
   for (size_t i = 0; i < table.count; i++) {
      const ElfW(Sym) *symbol = &table.symbols[i];
      if ((symbol->st_info & 15) != STT_FUNC || symbol->st_shndx == SHN_UNDEF || symbol->st_name >= table.names_bytes)
         continue;
      unsigned what = role(table.names + symbol->st_name, demangler);
      if (what != 0)
         add(bias + symbol->st_value, symbol->st_size, what);
   }
}

static void take_file(const char *file, size_t bytes, word bias)
{
   const ElfW(Ehdr) *header = (const void *)file;
   size_t sections_bytes = (size_t)header->e_shnum * sizeof(ElfW(Shdr));
   if (header->e_shoff > bytes || sections_bytes > bytes - header->e_shoff || header->e_shentsize != sizeof(ElfW(Shdr)))
      return;
   const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
   int ours = 0;
   for (unsigned i = 0; i < header->e_shnum && !ours; i++)
      ours = is_instrumented(table_at(file, bytes, sections, header->e_shnum, i));
   /* A function that other files may call is in both tables: once is enough, but twice does no harm. */
   for (unsigned i = 0; i < header->e_shnum && ours; i++)
      take_functions(table_at(file, bytes, sections, header->e_shnum, i), bias);
}

void homing_region_look(const struct dl_phdr_info *object)
{
   if (from == NULL && to == NULL)
      return;
   homing_self.inside++;
   const char *path = object->dlpi_name[0] != 0 ? object->dlpi_name : "/proc/self/exe";
   int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
   struct stat status;
   if (file >= 0 && fstat(file, &status) == 0 && (size_t)status.st_size > sizeof(ElfW(Ehdr))) {
      size_t bytes = (size_t)status.st_size;
      char *text = (char *)syscall(SYS_mmap, NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
      if (text != MAP_FAILED) {
         take_file(text, bytes, object->dlpi_addr);
         syscall(SYS_munmap, text, bytes);
      }
   }
   if (file >= 0)
      syscall(SYS_close, file);
   homing_self.inside--;
}

static int look(struct dl_phdr_info *object, size_t size, void *argument)
{
   (void)size, (void)argument;
   homing_region_look(object);
   return 0;
}

void homing_region_start(void)
{
   from = secure_getenv(HOMING_FROM_ENV);
   to = secure_getenv(HOMING_TO_ENV);
   from = from != NULL ? strdup(from) : NULL;
   to = to != NULL ? strdup(to) : NULL;
   unsetenv(HOMING_FROM_ENV);
   unsetenv(HOMING_TO_ENV);
   place = from != NULL ? BEFORE : INSIDE;
   dl_iterate_phdr(look, NULL);
   homing_region_awaited = from != NULL || to != NULL;
}

/* Whether the entry of a function that is `what` begins the region or ends it now. */
static int changes(unsigned what)
{
   switch (__atomic_load_n(&place, __ATOMIC_RELAXED)) {
   case BEFORE:
      return (what & BEGINS) != 0;
   case INSIDE:
      return (what & ENDS) != 0;
   default:
      return 0;
   }
}

static void reach(unsigned what)
{
   if (!changes(what))
      return;
   /* References of other threads that come before the region, or in it, may arrive later. */
   struct cut cut = homing_begin_cut();
   struct event event = {0};
   if (cut.begun && changes(what)) {
      __atomic_store_n(&place, place + 1, __ATOMIC_RELAXED);
      event = (struct event){1, {HOMING_WORD(HOMING_REGION, place == INSIDE)}};
      homing_region_awaited = place == INSIDE && to != NULL;
   }
   homing_end_cut(cut, event);
}

void homing_region_enter(word code)
{
   unsigned what = 0, count = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
   for (unsigned i = 0; i < count; i++)
      if (code - functions[i].start < functions[i].bytes)
         what |= functions[i].what;
   reach(what);
}

void homing_region_mark(const char *mark)
{
   reach((homing_is_mark(from, mark) ? BEGINS : 0) | (homing_is_mark(to, mark) ? ENDS : 0));
}
