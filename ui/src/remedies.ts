// Causes and remedies in words, as `homing why` prints them.

import { percent } from './format.ts'
import type { Cause, Remedy } from './report.ts'

const CAUSES: Record<string, string> = {
  'initialised-by-one-thread': 'initialised by one thread',
  'initialised-by-others': 'initialised by other threads than use it',
  'shared-by-all': 'shared by all: spread it',
  'read-shared': 'read by all: replicate it or leave it',
  'used-in-turn': 'used by one node after the other: keep threads to their data, or let it follow',
  'one-node-congested': 'one node is congested',
  'falsely-shared-pages': 'falsely shared pages: separate the parts',
  'shared-huge-pages': 'huge pages shared by nodes: use small pages there',
  'falsely-shared-lines': 'falsely shared lines: pad them',
  'contended-lines': 'contended lines: split them',
  'not-numa': 'not NUMA',
  'not-known': 'not known',
}

/** A cause in words; one that this page does not know by its name. */
export function causeWords(cause: Cause | undefined): string {
  return cause === undefined ? '–' : (CAUSES[cause] ?? cause)
}

const SHORT: Record<string, string> = {
  'initialise-by-user': 'initialise where it is used',
  spread: 'spread over the nodes',
  replicate: 'a copy for each node',
  migrate: 'let pages follow their users',
  'same-thread': 'the same part for each thread',
  'separate-pages': 'pages of its own for each part',
  'pad-lines': 'lines of its own for each part',
  'split-lines': 'split what all write',
  'one-node': 'run on one node',
}

const LONG: Record<string, string> = {
  'initialise-by-user':
    'Let the threads that use it initialise it: `#pragma omp parallel for schedule(static)` over the loop that first ' +
    'writes it, with the schedule of the loop that uses it.',
  spread:
    'Spread it: `mbind(start, bytes, MPOL_INTERLEAVE, all nodes, ...)` where it is allocated, before it is first ' +
    'written.',
  replicate: 'Give each node a copy of its own, filled by a thread of that node.',
  migrate:
    'Let its pages follow their users: `homing run -- PROGRAM` (experimental: for batch programs, not for servers).',
  'same-thread':
    'Let each thread go on with the part that it began with: the same division of the work in each phase.',
  'separate-pages': 'Give each thread’s part pages of its own.',
  'pad-lines': 'Give each thread’s part lines of its own.',
  'split-lines': 'Split what is in a few lines into a part for each thread or node, or use it less often.',
  'one-node': 'Run all threads on one node, with its memory.',
}

const PLACING: Record<string, string> = {
  'as-now': '',
  'by-user': ', made by their users',
  spread: ', spread over the nodes',
  follow: ' that follow their users',
}

/** A remedy in few words. */
export function remedyShort(remedy: Remedy | undefined): string {
  if (remedy === undefined) return '–'
  if (typeof remedy === 'string') return SHORT[remedy] ?? remedy
  if ('small-pages' in remedy) return `small pages${PLACING[remedy['small-pages']] ?? ''}`
  return 'bind' in remedy ? `keep on node ${remedy.bind}` : (Object.keys(remedy)[0] ?? '–')
}

/** A remedy as something to do. */
export function remedyLong(remedy: Remedy): string {
  if (typeof remedy === 'string') return LONG[remedy] ?? remedy
  if ('small-pages' in remedy) {
    return (
      'Give it small pages: `madvise(start, bytes, MADV_NOHUGEPAGE)` where it is allocated, before it is first ' +
      `written: small pages${PLACING[remedy['small-pages']] ?? ''}.`
    )
  }
  if (!('bind' in remedy)) return remedyShort(remedy)
  const node = remedy.bind
  return (
    `Keep it on node ${node}: \`mbind(start, bytes, MPOL_BIND, node ${node}, ...)\` where it is allocated, or ` +
    'initialise it in a thread of that node.'
  )
}

/** A share as what it saves or adds. */
export function saves(share: number): string {
  return share >= 0 ? `saves ${percent(100 * share)}` : `adds ${percent(-100 * share)}`
}
