/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool's end of the wire: the segment in use, control words, interned names.
 */
#include "homing.h"

/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern Int VG_(safe_fd)(Int oldfd);
extern Int VG_(kill)(Int pid, Int signo);
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd, Off64T offset);

ULong** homing_cursor;
ULong* homing_limit;
Bool homing_recording = False;

static homing_wire_header* header;
/* The same, also in forked children that are not recorded: they count theirs in it. */
static homing_wire_header* counts;
static Int credit_fd = -1, full_fd = -1;
static UInt segment_index; /* counts posted segments */
static UInt segment;       /* the one in use */

/* Where the cursor runs while nothing is recorded. */
static ULong scratch[4 * HOMING_BLOCK_WORDS];
static ULong* scratch_cursor;

const HChar* homing_wire_address;

static ULong next_name = 1; /* 0 is no name */

typedef struct _Name {
   struct _Name* next;
   UWord key; /* hash of the text */
   ULong id;
   HChar* text;
} Name;

#define LONGEST_NAME (8 * (HOMING_BLOCK_WORDS - 2))

static VgHashTable* names;

static void forget_name(void* name)
{
   VG_(free)(((Name*)name)->text);
   VG_(free)(name);
}

static ULong* segment_begin(UInt number)
{
   return (ULong*)((UChar*)header + header->header_bytes) + (SizeT)number * header->segment_words;
}

static void write_into(ULong* begin, SizeT words)
{
   *homing_cursor = begin;
   homing_limit = begin + words - HOMING_BLOCK_WORDS;
}

static void close_pipes(void)
{
   homing_recording = False;
   if (full_fd >= 0) {
      VG_(close)(credit_fd);
      VG_(close)(full_fd);
      credit_fd = full_fd = -1;
   }
}

/* Stops recording without a further word on the wire. */
static void forsake(void)
{
   close_pipes();
   write_into(scratch, sizeof scratch / sizeof scratch[0]);
}

void homing_count_child(void)
{
   if (counts != NULL)
      __atomic_fetch_add(&counts->children, 1, __ATOMIC_RELAXED);
}

/* Takes a free segment, waiting for one. False: homing is gone. */
static Bool take_credit(void)
{
   UInt number;
   Int n;
   do
      n = VG_(read)(credit_fd, &number, sizeof number);
   while (n == -VKI_EINTR);
   if (n != sizeof number || number >= header->segments)
      return False;
   segment = number;
   return True;
}

static void use_segment(void)
{
   write_into(segment_begin(segment), header->segment_words);
   header->open[0].index = segment_index;
   header->open[0].segment_plus_1 = segment + 1;
}

/* Homing was killed: what it records ends with it, as the kernel sees to for the first process. */
static void end_without_homing(void)
{
   VG_(kill)(VG_(getpid)(), VKI_SIGKILL);
}

static void begin_segment(void)
{
   if (take_credit()) {
      use_segment();
      return;
   }
   if (!header->stop)
      end_without_homing();
   forsake();
}

static void post_segment(void)
{
   homing_wire_full full = { segment, (UInt)(*homing_cursor - segment_begin(segment)), 0, segment_index++ };
   if (full.words > 0)
      VG_(write)(full_fd, &full, sizeof full);
   header->open[0].segment_plus_1 = 0;
}

void homing_flush(void)
{
   if (!homing_recording) {
      write_into(scratch, sizeof scratch / sizeof scratch[0]);
      return;
   }
   post_segment();
   if (header->stop)
      forsake();
   else
      begin_segment();
}

static Int parse_fd(const HChar** text)
{
   HChar* end;
   Long fd = VG_(strtoll10)(*text, &end);
   if (end == *text)
      return -1;
   *text = *end == ',' ? end + 1 : end;
   return (Int)fd;
}

/* Keeps a descriptor out of the program's reach. */
static Int own_fd(Int fd)
{
   return fd < 0 ? -1 : VG_(safe_fd)(fd);
}

static Bool map_memory(Int fd)
{
   struct vg_stat stat;
   if (fd < 0 || VG_(fstat)(fd, &stat) != 0)
      return False;
   SysRes map = VG_(am_shared_mmap_file_float_valgrind)(stat.size, VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
   SysRes second = VG_(am_shared_mmap_file_float_valgrind)(VKI_PAGE_SIZE, VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
   VG_(close)(fd);
   if (sr_isError(map) || sr_isError(second))
      return False;
   header = (homing_wire_header*)sr_Res(map);
   counts = (homing_wire_header*)sr_Res(second);
   return header->magic == HOMING_WIRE_MAGIC;
}

/* Opens descriptor `fd` of homing as a file of our own. */
static Int open_of_homing(Int pid, Int fd, Int flags)
{
   HChar path[64];
   VG_(sprintf)(path, "/proc/%d/fd/%d", pid, fd);
   return own_fd(VG_(fd_open)(path, flags, 0));
}

static void start_recording(void)
{
   header->version = HOMING_WIRE_VERSION;
   header->flavour = HOMING_FLAVOUR_SERIAL;
   homing_cursor = (ULong**)&header->open[0].words;
   header->cursor_base = (ULong)segment_begin(0);
   header->open_end = 1;
   homing_recording = True;
}

static Bool open_pipes(const HChar* text)
{
   Int pid = parse_fd(&text);
   parse_fd(&text);
   Int credit = parse_fd(&text), full = parse_fd(&text);
   credit_fd = open_of_homing(pid, credit, VKI_O_RDONLY);
   full_fd = open_of_homing(pid, full, VKI_O_WRONLY);
   return credit_fd >= 0 && full_fd >= 0;
}

static Int open_memory(const HChar* text)
{
   Int pid = parse_fd(&text);
   return open_of_homing(pid, parse_fd(&text), VKI_O_RDWR);
}

/* The wire of a forked child lies where its parent's lay, since blocks that are translated write through the cursor
 * there. False: there is none for this process. */
static Bool attach_after_fork(void)
{
   const HChar* text = homing_ask_for_wire("fork");
   /* The parent is recorded, and homing waits for that: it has not ended but been killed. */
   if (text == NULL && homing_is_gone() && !header->stop)
      end_without_homing();
   if (text == NULL)
      return False;
   Int memory = open_memory(text);
   struct vg_stat stat;
   if (memory < 0 || VG_(fstat)(memory, &stat) != 0)
      return False;
   SysRes map = VG_(do_syscall)(__NR_mmap, (UWord)header, stat.size, VKI_PROT_READ | VKI_PROT_WRITE,
                                VKI_MAP_SHARED | VKI_MAP_FIXED, memory, 0, 0, 0);
   SysRes second = VG_(do_syscall)(__NR_mmap, (UWord)counts, VKI_PAGE_SIZE, VKI_PROT_READ | VKI_PROT_WRITE,
                                   VKI_MAP_SHARED | VKI_MAP_FIXED, memory, 0, 0, 0);
   VG_(close)(memory);
   return !sr_isError(map) && !sr_isError(second) && header->magic == HOMING_WIRE_MAGIC && open_pipes(text);
}

Bool homing_wire_after_fork(void)
{
   if (!homing_recording)
      return False;
   close_pipes(); /* of the parent, whose header is still in place: no word must be written */
   if (!homing_following() || !attach_after_fork()) {
      VG_(do_syscall)(__NR_mmap, (UWord)header, header->header_bytes, VKI_PROT_READ | VKI_PROT_WRITE,
                      VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_FIXED, (UWord)-1, 0, 0, 0);
      forsake();
      return False;
   }
   segment_index = 0;
   next_name = 1;
   homing_next_block = 1;
   if (names != NULL)
      VG_(HT_destruct)(names, forget_name);
   names = NULL;
   start_recording();
   begin_segment();
   return homing_recording;
}

/* Says what this process runs now. */
static void send_exec(void)
{
   ULong words[HOMING_BLOCK_WORDS] = { 0 };
   SizeT length = homing_command((HChar*)words, LONGEST_NAME);
   homing_control(HOMING_EXEC, length, (length + 7) / 8, words);
}

/* Begins a new stream on the wire of the program that this process ran before. False: this is not such a case. */
static Bool attach_after_exec(void)
{
   const HChar* text = homing_following() ? homing_ask_for_wire("exec") : homing_wire_address;
   if (text == NULL || !map_memory(open_memory(text)) || header->flavour == 0 || !open_pipes(text))
      return False;
   /* Where the program before was no longer recorded, since its limit was reached, there is none. */
   if (header->open[0].segment_plus_1 != 0)
      segment = header->open[0].segment_plus_1 - 1;
   else if (!take_credit())
      return False;
   header->stop = 0;
   start_recording();
   use_segment();
   send_exec();
   return True;
}

void homing_wire_before_exec(void)
{
   if (homing_recording)
      homing_flush();
}

void homing_wire_attach(void)
{
   scratch_cursor = scratch;
   homing_cursor = &scratch_cursor;
   write_into(scratch, sizeof scratch / sizeof scratch[0]);
   if (attach_after_exec())
      return;
   if (header == NULL ? homing_following() : header->flavour != 0) {
      VG_(umsg)("homing has no wire for this process: it is not recorded\n");
      forsake();
      return;
   }
   const HChar* text = VG_(getenv)(HOMING_WIRE_ENV);
   if (text == NULL) {
      VG_(umsg)("%s is not set: nothing is recorded (start the program with `homing record`)\n", HOMING_WIRE_ENV);
      return;
   }
   Int memory_fd = parse_fd(&text);
   credit_fd = own_fd(parse_fd(&text));
   full_fd = own_fd(parse_fd(&text));
   if (!map_memory(memory_fd) || credit_fd < 0 || full_fd < 0) {
      VG_(umsg)("%s does not name a recording wire: nothing is recorded\n", HOMING_WIRE_ENV);
      forsake();
      return;
   }
   start_recording();
   begin_segment();
}

void homing_wire_close(void)
{
   if (!homing_recording)
      return;
   post_segment();
   forsake();
}

static ULong* room(UInt words)
{
   if (*homing_cursor > homing_limit)
      homing_flush();
   tl_assert(words <= HOMING_BLOCK_WORDS);
   return *homing_cursor;
}

void homing_put(const ULong* words, UInt n)
{
   ULong* at = room(n);
   VG_(memcpy)(at, words, n * sizeof words[0]);
   *homing_cursor = at + n;
}

void homing_control(UInt operation, ULong payload, UInt operands, const ULong* operand)
{
   if (!homing_recording)
      return;
   ULong* at = room(1 + operands);
   at[0] = HOMING_WORD(operation, payload);
   for (UInt i = 0; i < operands; i++)
      at[1 + i] = operand[i];
   *homing_cursor = at + 1 + operands;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

UWord homing_hash(const HChar* text)
{
   UWord hash = 14695981039346656037UL; /* FNV-1a */
   for (; *text; text++)
      hash = (hash ^ (UChar)*text) * 1099511628211UL;
   return hash;
}

static Word differ(const void* a, const void* b)
{
   return VG_(strcmp)(((const Name*)a)->text, ((const Name*)b)->text);
}

static void send_name(UInt operation, ULong id, const HChar* text)
{
   ULong words[HOMING_BLOCK_WORDS] = { 0 };
   SizeT length = VG_(strlen)(text);
   if (length > LONGEST_NAME)
      length = LONGEST_NAME;
   VG_(memcpy)(words, text, length);
   homing_control(operation, id << HOMING_NAME_ID_AT | length, (length + 7) / 8, words);
}

static ULong name_as(UInt operation, const HChar* text)
{
   if (names == NULL)
      names = VG_(HT_construct)("homing.names");
   Name wanted = { NULL, homing_hash(text), 0, (HChar*)text };
   Name* name = VG_(HT_gen_lookup)(names, &wanted, differ);
   if (name == NULL) {
      name = VG_(malloc)("homing.name", sizeof *name);
      *name = (Name){ NULL, wanted.key, next_name++, VG_(strdup)("homing.name", text) };
      VG_(HT_add_node)(names, name);
      send_name(operation, name->id, text);
   }
   return name->id;
}

ULong homing_name(const HChar* text) { return name_as(HOMING_NAME, text); }

ULong homing_site(const HChar* frames) { return name_as(HOMING_SITE, frames); }
