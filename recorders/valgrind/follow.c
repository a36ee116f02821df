/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Child processes: each asks homing for a wire of its own, over a socket, when it has been forked, and asks again where
 * that wire is when it has executed a program.
 *
 * The question is "fork" or "exec" and the command line, each ended by a zero byte; then the sending side is closed.
 * The answer is an address as in homing_wire_address, or nothing.
 */
#include "homing.h"
#include "pub_tool_xarray.h"

/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);
extern const HChar* VG_(args_the_exename);
extern XArray* VG_(args_for_client);

enum { UNIX = 1, STREAM = 1, NO_SIGNAL = 0x4000, SHUT_SENDING = 1, REFUSED = 111, LONGEST_QUESTION = 65536,
       SOCKET_LEVEL = 1, PEER = 17 };

typedef struct {
   UShort family;
   HChar path[108]; /* begins with a zero byte: abstract, no file */
} SocketName;

Bool homing_following(void)
{
   return homing_wire_address != NULL && homing_wire_address[0] == '@';
}

static SysRes call(UWord number, UWord a, UWord b, UWord c, UWord d)
{
   return VG_(do_syscall)(number, a, b, c, d, 0, 0, 0, 0);
}

/* Nobody was there to be asked. */
static Bool gone;

Bool homing_is_gone(void) { return gone; }

/* Once homing has ended, anybody may take the name of its socket: only our own user, or root, is told what runs
   here. */
static Bool is_homing(Int fd)
{
   struct { Int pid; UInt uid, gid; } peer = { 0, ~0u, ~0u };
   UInt length = sizeof peer;
   SysRes asked = VG_(do_syscall)(__NR_getsockopt, fd, SOCKET_LEVEL, PEER, (UWord)&peer, (UWord)&length, 0, 0, 0);
   return !sr_isError(asked) && length == sizeof peer && (peer.uid == 0 || peer.uid == (UInt)VG_(geteuid)());
}

static Int connect_to_homing(void)
{
   SocketName name = { UNIX, { 0 } };
   SizeT length = VG_(strlen)(homing_wire_address + 1);
   if (length > sizeof name.path - 1)
      return -1;
   VG_(memcpy)(name.path + 1, homing_wire_address + 1, length);
   SysRes made = call(__NR_socket, UNIX, STREAM, 0, 0);
   if (sr_isError(made))
      return -1;
   Int fd = sr_Res(made);
   SysRes connected = call(__NR_connect, fd, (UWord)&name, sizeof name.family + 1 + length, 0);
   if (!sr_isError(connected) && is_homing(fd))
      return fd;
   gone = !sr_isError(connected) || sr_Err(connected) == REFUSED;
   VG_(close)(fd);
   return -1;
}

/* Adds a text and a zero byte to `at` bytes; one that is too long for the rest is cut. */
static SizeT add(HChar* to, SizeT room, SizeT at, const HChar* text)
{
   while (at < room - 1 && *text)
      to[at++] = *text++;
   to[at++] = 0;
   return at < room ? at : room - 1;
}

SizeT homing_command(HChar* text, SizeT room)
{
   SizeT length = add(text, room, 0, VG_(args_the_exename));
   for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_client)); i++)
      length = add(text, room, length, *(HChar**)VG_(indexXA)(VG_(args_for_client), i));
   return length;
}

static Bool send_question(Int fd, const HChar* since)
{
   HChar* question = VG_(malloc)("homing.question", LONGEST_QUESTION);
   SizeT length = add(question, LONGEST_QUESTION, 0, since), sent = 0;
   length += homing_command(question + length, LONGEST_QUESTION - length);
   while (sent < length) {
      SysRes result = call(__NR_sendto, fd, (UWord)question + sent, length - sent, NO_SIGNAL);
      if (sr_isError(result) && sr_Err(result) == VKI_EINTR)
         continue;
      if (sr_isError(result))
         break;
      sent += sr_Res(result);
   }
   VG_(free)(question);
   return sent == length && !sr_isError(call(__NR_shutdown, fd, SHUT_SENDING, 0, 0));
}

const HChar* homing_ask_for_wire(const HChar* since)
{
   static HChar answer[64];
   Int fd = connect_to_homing(), length = 0;
   if (fd < 0)
      return NULL;
   if (send_question(fd, since))
      while (length < (Int)sizeof answer - 1) {
         Int n = VG_(read)(fd, answer + length, sizeof answer - 1 - length);
         if (n == -VKI_EINTR)
            continue;
         if (n <= 0)
            break;
         length += n;
      }
   answer[length] = 0;
   VG_(close)(fd);
   return length > 0 ? answer : NULL;
}

Bool homing_can_follow_exec(const HChar* path)
{
   enum { CLASS = 4, CLASS_64 = 2, MACHINE = 18, X86_64 = 62, NEEDED = 20 };
   struct vg_stat stat;
   UChar head[NEEDED];
   SysRes file = VG_(stat)(path, &stat);
   if (sr_isError(file))
      return True; /* the program is to see that it fails */
   if (stat.mode & (VKI_S_ISUID | VKI_S_ISGID))
      return False;
   Int fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
   if (fd < 0)
      return False;
   Int n = VG_(read)(fd, head, sizeof head);
   VG_(close)(fd);
   Bool elf = n == NEEDED && VG_(memcmp)(head, "\177ELF", 4) == 0;
   return !elf || (head[CLASS] == CLASS_64 && head[MACHINE] == X86_64);
}
