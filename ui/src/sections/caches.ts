// What the modelled caches and TLBs counted before references reached memory.

import { h, table } from '../dom.ts'
import { integer } from '../format.ts'
import type { Counts, TraceInfo } from '../report.ts'

const WORDS: [keyof Counts, string][] = [
  ['references', 'References of the program'],
  ['lines', 'Lines asked of the first level'],
  ['l1_misses', 'Misses of the first level'],
  ['l2_misses', 'Misses of the second level'],
  ['l3_hits', 'Hits of the third level'],
  ['fetches_read', 'Lines fetched to be read'],
  ['fetches_write', 'Lines fetched to be written'],
  ['interventions', 'Fetches that another CPU’s cache served'],
  ['upgrades', 'Writes to lines that other CPUs held too'],
  ['invalidations', 'Copies taken by another CPU’s write'],
  ['write_backs', 'Changed lines written back'],
  ['tlb1_misses', 'Misses of the first TLB'],
  ['tlb_misses', 'Translations that no TLB held'],
  ['shootdowns', 'Translations shot down by moves'],
]

/** The counts, with `--misses`: folded away, since the tables above are of what reached memory. */
export function cachesSection(trace: TraceInfo): HTMLElement | undefined {
  const { caches } = trace
  if (caches === undefined) return undefined
  const rows = WORDS.map(([field, word]) => ({ word, count: caches[field] }))
  return h(
    'section',
    { 'data-chart': 'caches' },
    h('h3', {}, 'Caches'),
    h('p', {}, 'References went through modelled caches first: all other figures are of what reached memory.'),
    table(
      rows,
      [
        { title: 'Count', value: (row) => row.word, text: (row) => row.word },
        { title: 'All CPUs', value: (row) => row.count, text: (row) => integer(row.count) },
      ],
      { caption: 'What the modelled caches and TLBs counted.' },
    ),
  )
}
