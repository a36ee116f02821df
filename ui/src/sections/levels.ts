// How each policy does with less information: one line a policy, one column an information level.

import { type Column, h, table } from '../dom.ts'
import { few, mark } from '../few.ts'
import { percent } from '../format.ts'
import type { Row, TraceReport } from '../report.ts'

/** A policy and its rows by level. */
export interface Degradation {
  policy: string
  rows: Map<string, Row>
}

/**
 * The levels in the order in which they were asked for, and the policies. Rows without a level (the bound, static
 * policies) are left out.
 */
export function degradation(trace: TraceReport): { levels: string[]; policies: Degradation[] } {
  const policies = new Map<string, Degradation>()
  const levels = new Set<string>()
  for (const row of [...trace.rows, ...(trace.further_levels ?? [])]) {
    if (!row.information) continue
    levels.add(row.information)
    const entry = policies.get(row.policy) ?? { policy: row.policy, rows: new Map() }
    policies.set(row.policy, entry)
    entry.rows.set(row.information, row)
  }
  return { levels: [...levels], policies: [...policies.values()] }
}

/** The table, where there is more than one level. */
export function levelsSection(trace: TraceReport): HTMLElement | undefined {
  const { levels, policies } = degradation(trace)
  if (levels.length < 2) return undefined
  const gap = (level: string): Column<Degradation> => ({
    title: level,
    value: ({ rows }) => rows.get(level)?.gap_percent,
    text: ({ rows }) => {
      const row = rows.get(level)
      return row === undefined ? '–' : percent(row.gap_percent)
    },
  })
  const element = table(
    policies,
    [{ title: 'Policy', value: ({ policy }) => policy, text: ({ policy }) => policy }, ...levels.map(gap)],
    {
      caption: 'Gap to the optimum by information level.',
      sortable: true,
      mark,
    },
  )
  return h(
    'section',
    { 'data-chart': 'levels' },
    h('h3', {}, 'With less information'),
    h(
      'p',
      {},
      '“perfect” sees every reference; “every:N” one in N; “interval” and “intervals” profiles at interval ends only.',
    ),
    few(element, policies),
  )
}
