/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The code put into every block. No function is called for an access: a block stores its number and the addresses of
 * its accesses at the cursor, and moves the cursor at each exit. An address that differs from an earlier one of the
 * same block by a constant needs no store (linear.c tells); what is the same in every execution goes out once, as
 * DEFINE.
 */
#include "homing.h"
#include "linear.h"

typedef struct {
   Int statement;    /* index in the incoming block */
   IRExpr* address;  /* an atom */
   IRExpr* guard;    /* NULL: always happens */
   UInt size;
   UInt instruction; /* index in the block */
   UInt stretch;     /* how many side exits lie before it */
   Bool write, atomic;
   Bool derived;
   UInt word;        /* its own word, or the one that it is derived from */
   Long offset;      /* from that word */
} Access;

#define MAX_ACCESSES (HOMING_BLOCK_WORDS - 8)
#define MAX_WORDS 0x1000 /* what DEFINE can name */

typedef struct {
   IRSB* out;
   Linear linear;
   Access access[MAX_ACCESSES];
   UInt accesses, words, instructions;
   ULong guest_address;
   IRTemp cursor;
   UInt written; /* words counted in the cursor cell so far */
} Block;

ULong homing_next_block = 1;
static Block block; /* translation is serialised */

/* --- what the block accesses ------------------------------------------------------------------------------------- */

static Access* add(Int statement, IRExpr* address, Int size, Bool write, UInt stretch)
{
   tl_assert(block.accesses < MAX_ACCESSES && isIRAtom(address));
   Access* access = &block.access[block.accesses++];
   *access = (Access){ .statement = statement, .address = address, .size = size, .write = write,
                       .instruction = block.instructions - 1, .stretch = stretch };
   return access;
}

/* An atomic read-modify-write reads with a plain load first: that load and the CAS are one access. */
static void add_cas(Int statement, const IRCAS* cas, const IRTypeEnv* types, UInt stretch)
{
   Int size = sizeofIRType(typeOfIRExpr(types, cas->dataLo)) * (cas->dataHi != NULL ? 2 : 1);
   UInt instruction = block.instructions - 1;
   for (Int i = (Int)block.accesses - 1; i >= 0 && block.access[i].instruction == instruction; i--) {
      Access* before = &block.access[i];
      if (!before->write && before->stretch == stretch && eqIRAtom(before->address, cas->addr)) {
         for (UInt k = i; k + 1 < block.accesses; k++)
            block.access[k] = block.access[k + 1];
         block.accesses--;
      }
   }
   add(statement, cas->addr, size, True, stretch)->atomic = True;
}

static void add_dirty(Int statement, const IRDirty* dirty, UInt stretch)
{
   IRExpr* guard = dirty->guard;
   if (guard->tag == Iex_Const)
      guard = guard->Iex.Const.con->Ico.U1 ? NULL : guard;
   if (dirty->mFx == Ifx_Read || dirty->mFx == Ifx_Modify)
      add(statement, dirty->mAddr, dirty->mSize, False, stretch)->guard = guard;
   if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
      add(statement, dirty->mAddr, dirty->mSize, True, stretch)->guard = guard;
}

static void add_guarded_load(Int statement, const IRLoadG* load, UInt stretch)
{
   IRType widened, loaded;
   typeOfIRLoadGOp(load->cvt, &widened, &loaded);
   add(statement, load->addr, sizeofIRType(loaded), False, stretch)->guard = load->guard;
}

static void add_llsc(Int statement, const IRStmt* st, const IRTypeEnv* types, UInt stretch)
{
   Bool store = st->Ist.LLSC.storedata != NULL;
   IRType type = store ? typeOfIRExpr(types, st->Ist.LLSC.storedata) : typeOfIRTemp(types, st->Ist.LLSC.result);
   add(statement, st->Ist.LLSC.addr, sizeofIRType(type), store, stretch)->atomic = store;
}

static void find_accesses(const IRSB* in)
{
   UInt stretch = 0;
   for (Int i = 0; i < in->stmts_used; i++) {
      const IRStmt* st = in->stmts[i];
      switch (st->tag) {
      case Ist_IMark:
         if (block.instructions++ == 0)
            block.guest_address = st->Ist.IMark.addr;
         break;
      case Ist_WrTmp:
         linear_define(&block.linear, st->Ist.WrTmp.tmp, st->Ist.WrTmp.data);
         if (st->Ist.WrTmp.data->tag == Iex_Load)
            add(i, st->Ist.WrTmp.data->Iex.Load.addr, sizeofIRType(st->Ist.WrTmp.data->Iex.Load.ty), False, stretch);
         break;
      case Ist_Store:
         add(i, st->Ist.Store.addr, sizeofIRType(typeOfIRExpr(in->tyenv, st->Ist.Store.data)), True, stretch);
         break;
      case Ist_StoreG: {
         const IRStoreG* store = st->Ist.StoreG.details;
         add(i, store->addr, sizeofIRType(typeOfIRExpr(in->tyenv, store->data)), True, stretch)->guard = store->guard;
         break;
      }
      case Ist_LoadG: add_guarded_load(i, st->Ist.LoadG.details, stretch); break;
      case Ist_CAS: add_cas(i, st->Ist.CAS.details, in->tyenv, stretch); break;
      case Ist_LLSC: add_llsc(i, st, in->tyenv, stretch); break;
      case Ist_Dirty: add_dirty(i, st->Ist.Dirty.details, stretch); break;
      case Ist_Exit: stretch++; break;
      default: break;
      }
   }
}

/* --- which of them need a word ----------------------------------------------------------------------------------- */

/* The latest earlier access that `access` lies at a small constant distance from, or NULL. */
static Access* leader_of(Access* access, Long* offset)
{
   if (access->guard != NULL)
      return NULL;
   for (Access* leader = access - 1; leader >= block.access; leader--)
      if (!leader->derived && leader->guard == NULL && leader->word < MAX_WORDS
          && linear_distance(&block.linear, leader->address, access->address, offset)
          && *offset >= -0x8000 && *offset < 0x8000)
         return leader;
   return NULL;
}

/* Gives out words. Each stretch between side exits needs a word of its own, whose presence tells that it was reached.
 * */
static void assign_words(void)
{
   UInt next = 0;
   for (UInt begin = 0, end; begin < block.accesses; begin = end) {
      UInt own = 0;
      for (end = begin; end < block.accesses && block.access[end].stretch == block.access[begin].stretch; end++) {
         Access* access = &block.access[end];
         Access* leader = leader_of(access, &access->offset);
         access->derived = leader != NULL;
         access->word = leader != NULL ? leader->word : next + own++;
      }
      if (own == 0) {
         Access* first = &block.access[begin];
         *first = (Access){ .statement = first->statement, .address = first->address, .size = first->size,
                            .instruction = first->instruction, .stretch = first->stretch, .write = first->write,
                            .atomic = first->atomic, .word = next + own++ };
      }
      next += own;
   }
   block.words = next;
}

static void send_definition(ULong number)
{
   ULong words[3 + MAX_ACCESSES];
   UInt stretch = 0;
   words[0] = HOMING_WORD(HOMING_DEFINE, number);
   words[1] = (ULong)block.accesses << 32 | block.instructions;
   words[2] = block.guest_address;
   for (UInt i = 0; i < block.accesses; i++) {
      const Access* access = &block.access[i];
      ULong word = access->instruction | (ULong)access->size << HOMING_ACCESS_SIZE_AT
                 | (ULong)access->write << HOMING_ACCESS_WRITE_BIT | (ULong)access->atomic << HOMING_ACCESS_ATOMIC_BIT
                 | (ULong)(access->stretch != stretch) << HOMING_ACCESS_EXIT_BIT;
      if (access->derived)
         word |= 1ULL << HOMING_ACCESS_DERIVED_BIT | (ULong)access->word << HOMING_ACCESS_WORD_AT
               | (ULong)(access->offset & 0xffff) << HOMING_ACCESS_OFFSET_AT;
      else
         word |= (ULong)(access->guard != NULL) << HOMING_ACCESS_GUARDED_BIT;
      words[3 + i] = word;
      stretch = access->stretch;
   }
   homing_put(words, 3 + block.accesses);
}

/* --- the code ---------------------------------------------------------------------------------------------------- */

static IRExpr* constant(ULong value)
{
   return IRExpr_Const(IRConst_U64(value));
}

static IRExpr* assign(IRType type, IRExpr* value)
{
   IRTemp temp = newIRTemp(block.out->tyenv, type);
   addStmtToIRSB(block.out, IRStmt_WrTmp(temp, value));
   return IRExpr_RdTmp(temp);
}

static IRExpr* at_cursor(UInt words)
{
   IRExpr* cursor = IRExpr_RdTmp(block.cursor);
   return words == 0 ? cursor : assign(Ity_I64, IRExpr_Binop(Iop_Add64, cursor, constant(8 * words)));
}

static void store(IRExpr* address, IRExpr* value)
{
   addStmtToIRSB(block.out, IRStmt_Store(Iend_LE, address, value));
}

/* The first block of a function that begins or ends the region of interest says so when it is executed. (With
 * --vex-guest-chase=no, which homing gives then, no block goes on in a function that it calls.) */
static void note_entry(Addr address)
{
   UInt entry = homing_region_entry(address);
   if (entry != 0)
      addStmtToIRSB(block.out,
                    IRStmt_Dirty(unsafeIRDirty_0_N(0, "homing_enter", VG_(fnptr_to_fnentry)(&homing_enter),
                                                   mkIRExprVec_1(constant(entry)))));
}

/* Makes room if the segment is full, and gives the cursor. */
static IRExpr* make_room(void)
{
   IRExpr* cell = constant((ULong)homing_cursor);
   IRExpr* before = assign(Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, cell));
   IRExpr* limit = assign(Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, constant((ULong)&homing_limit)));
   IRExpr* full = assign(Ity_I1, IRExpr_Binop(Iop_CmpLT64U, limit, before));
   IRDirty* flush =
      unsafeIRDirty_0_N(0, "homing_flush", VG_(fnptr_to_fnentry)(&homing_flush), mkIRExprVec_0());
   flush->guard = full;
   addStmtToIRSB(block.out, IRStmt_Dirty(flush));
   IRExpr* cursor = assign(Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, cell));
   block.cursor = cursor->Iex.RdTmp.tmp;
   block.written = 0;
   return cursor;
}

/* The same, and stores the block's number. */
static void begin_block(ULong number)
{
   store(make_room(), constant(HOMING_WORD(HOMING_BLOCK, number)));
}

static void store_access(const Access* access)
{
   if (access->derived)
      return;
   IRExpr* value = access->address;
   if (access->guard != NULL)
      value = assign(Ity_I64, IRExpr_ITE(access->guard, value, constant(0)));
   store(at_cursor(1 + access->word), value);
}

/* Moves the cursor past the words stored so far. */
static void move_cursor(UInt words)
{
   if (words == block.written)
      return;
   store(constant((ULong)homing_cursor), at_cursor(words));
   block.written = words;
}

/* Words of a synchronisation, and the most that a block may have. */
enum { SYNC_WORDS = 3, MAX_SYNC_WORDS = HOMING_BLOCK_WORDS / 2 };

/* The code of a block whose references are left out. Its atomic accesses order threads all the same: each is said to be
 * a synchronisation on its address. (Homing gives it its stamp: the stream is in order.) */
static IRSB* leave_out(const IRSB* in)
{
   block.out = deepCopyIRSBExceptStmts(in);
   Bool any = False, begun = False;
   for (UInt i = 0; i < block.accesses; i++)
      any = any || block.access[i].atomic;
   UInt next = 0, words = 0;
   block.written = 0;
   for (Int i = 0; i < in->stmts_used; i++) {
      IRStmt* st = in->stmts[i];
      for (; next < block.accesses && block.access[next].statement == i; next++) {
         if (!block.access[next].atomic || words >= MAX_SYNC_WORDS)
            continue;
         store(at_cursor(words), constant(HOMING_WORD(HOMING_SYNC, 2)));
         store(at_cursor(words + 1), block.access[next].address);
         store(at_cursor(words + 2), constant(0));
         words += SYNC_WORDS;
      }
      if (st->tag == Ist_Exit && begun)
         move_cursor(words);
      addStmtToIRSB(block.out, st);
      if (st->tag == Ist_IMark && !begun) {
         note_entry(st->Ist.IMark.addr);
         homing_note_go(block.out, st->Ist.IMark.addr);
         if (any)
            make_room();
         begun = True;
      }
   }
   if (begun)
      move_cursor(words);
   return block.out;
}

IRSB* homing_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest_word, IRType host_word)
{
   tl_assert(guest_word == Ity_I64 && host_word == Ity_I64);
   if (!homing_recording)
      return in;
   block.accesses = block.instructions = 0;
   linear_begin(&block.linear, in->tyenv->types_used);
   find_accesses(in);
   if (!homing_is_own(extents->base[0]))
      return leave_out(in);
   assign_words();
   ULong number = homing_next_block++;
   send_definition(number);

   block.out = deepCopyIRSBExceptStmts(in);
   UInt next = 0, words = 1;
   Bool begun = False;
   for (Int i = 0; i < in->stmts_used; i++) {
      IRStmt* st = in->stmts[i];
      for (; next < block.accesses && block.access[next].statement == i; next++) {
         store_access(&block.access[next]);
         words += !block.access[next].derived;
      }
      if (st->tag == Ist_Exit && begun)
         move_cursor(words);
      addStmtToIRSB(block.out, st);
      if (st->tag == Ist_IMark && !begun) {
         note_entry(st->Ist.IMark.addr);
         homing_note_go(block.out, st->Ist.IMark.addr);
         begin_block(number);
         begun = True;
      }
   }
   if (begun)
      move_cursor(words);
   return block.out;
}
