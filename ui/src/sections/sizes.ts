// Several page sizes beside each other, and the large pages that cost least when they are split.

import { type Column, h, table } from '../dom.ts'
import { few, mark } from '../few.ts'
import { bytes, digits, integer, mcpr, percent } from '../format.ts'
import type { Region, SizeRow, TraceReport } from '../report.ts'
import { OPTIMAL } from '../roles.ts'

/** One policy at all page sizes. */
export interface AtSizes {
  policy: string
  rows: Map<number, SizeRow>
}

/** The sizes, smallest first, and the policies in the order of the report. */
export function bySize(rows: readonly SizeRow[]): { sizes: number[]; policies: AtSizes[] } {
  const policies = new Map<string, AtSizes>()
  for (const row of rows) {
    const entry = policies.get(row.policy) ?? { policy: row.policy, rows: new Map() }
    policies.set(row.policy, entry)
    entry.rows.set(row.page_size, row)
  }
  return {
    sizes: [...new Set(rows.map((row) => row.page_size))].sort((a, b) => a - b),
    policies: [...policies.values()],
  }
}

/** TLB misses depend on the page size alone: one figure a size, where the report has it. */
function tlbLine(sizes: readonly number[], rows: readonly SizeRow[]): HTMLElement | undefined {
  const misses = sizes.flatMap((size) => {
    const found = rows.find((row) => row.page_size === size && row.tlb_misses !== undefined)
    return found === undefined ? [] : [`${integer(found.tlb_misses!)} with pages of ${bytes(size)}`]
  })
  return misses.length === 0 ? undefined : h('p', {}, `Translations that no TLB held: ${misses.join(', ')}.`)
}

function splitTable(regions: readonly Region[]): HTMLElement {
  const saved = (region: Region) => region.whole_cost - region.split_cost
  return table(
    regions,
    [
      { title: 'Address', value: (region) => region.address, text: (region) => `0x${region.address.toString(16)}` },
      {
        title: 'Saved',
        help: 'cost as one page - cost in small pages',
        value: saved,
        text: (region) => integer(saved(region)),
      },
      { title: 'Cost whole', value: (region) => region.whole_cost, text: (region) => integer(region.whole_cost) },
      { title: 'Cost split', value: (region) => region.split_cost, text: (region) => integer(region.split_cost) },
      {
        title: 'Small pages',
        help: 'in use',
        value: (region) => region.pages,
        text: (region) => integer(region.pages),
      },
      {
        title: 'Nodes',
        help: 'that refer to it',
        value: (region) => region.nodes,
        text: (region) => digits(region.nodes, 4),
      },
      { title: 'References', value: (region) => region.references, text: (region) => integer(region.references) },
    ],
    { caption: 'Large pages that are worth splitting, by what it saves under the optimum.', sortable: true },
  )
}

/** Bound and policies at each page size, where several were asked for. */
export function sizesSection(trace: TraceReport): HTMLElement | undefined {
  const rows = trace.page_sizes ?? []
  if (rows.length === 0) return undefined
  const { sizes, policies } = bySize(rows)
  const column = (size: number): Column<AtSizes> => ({
    title: bytes(size),
    help: `mean cost per reference and gap, with pages of ${bytes(size)}`,
    value: ({ rows }) => rows.get(size)?.mcpr,
    text: ({ rows }) => {
      const row = rows.get(size)
      return row === undefined
        ? '–'
        : row.policy === OPTIMAL
          ? mcpr(row.mcpr)
          : `${mcpr(row.mcpr)} (+${percent(row.gap_percent)})`
    },
  })
  const split = trace.split ?? []
  return h(
    'section',
    { 'data-chart': 'page-sizes' },
    h('h3', {}, 'With other page sizes'),
    h('p', {}, 'Each size has its own optimum: a gap is to that of the same size.'),
    few(
      table(
        policies,
        [{ title: 'Policy', value: ({ policy }) => policy, text: ({ policy }) => policy }, ...sizes.map(column)],
        {
          caption: 'Mean cost per reference, and gap to the optimum, by page size.',
          sortable: true,
          mark,
        },
      ),
      policies,
    ),
    tlbLine(sizes, rows),
    split.length === 0 ? undefined : splitTable(split),
  )
}
