/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whether a symbol is the function that begins or ends a region of interest, or a mark does: both recorders shall take
 * the same names.
 * Without the C library, which neither may call. */
#ifndef HOMING_FUNCTION_H
#define HOMING_FUNCTION_H

/* What follows `start` in `text`; NULL if it does not begin so. */
static inline const char *homing_behind(const char *text, const char *start)
{
   while (*start != 0 && *text == *start)
      text++, start++;
   return *start == 0 ? text : (const char *)0;
}

/* What may follow a function's name: its parameters, a template's arguments, its version, or that the compiler has
 * made a variant of it. */
static inline int homing_ends_name(const char *rest)
{
   return *rest == 0 || *rest == '(' || *rest == '<' || *rest == '@' || homing_behind(rest, ".constprop.") ||
          homing_behind(rest, ".isra.");
}

/* Whether a symbol is a function of that name: as the linker knows it, or demangled, with or without parameters; the
 * type that a template returns may stand before it. */
static inline int homing_is_called(const char *symbol, const char *name)
{
   for (const char *at = symbol; *at != 0 && (at == symbol || at[-1] != '('); at++) {
      const char *rest = at == symbol || at[-1] == ' ' ? homing_behind(at, name) : (const char *)0;
      if (rest && homing_ends_name(rest))
         return 1;
   }
   return 0;
}

/* Whether a name stands for the mark `text`: "mark:" is before it, where a function could have "mark::". */
static inline int homing_is_mark(const char *name, const char *text)
{
   const char *mark = name ? homing_behind(name, "mark:") : (const char *)0;
   const char *rest = mark ? homing_behind(text, mark) : (const char *)0;
   return rest && *rest == 0;
}

/* Whether a demangled symbol is a part of a function that is not its entry. */
static inline int homing_is_part(const char *symbol)
{
   for (; *symbol != 0; symbol++)
      if (homing_behind(symbol, "[clone .cold") || homing_behind(symbol, "[clone .part"))
         return 1;
   return 0;
}

#endif
