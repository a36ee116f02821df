// What windows say of the whole program: one line a policy, with intervals.

import { type Column, h, table } from '../dom.ts'
import { count, mcpr, percent } from '../format.ts'
import type { Figure, Row, TraceReport } from '../report.ts'

/** A value with its interval, or why it has none. */
export function estimated(figure: Figure | undefined, text: (value: number) => string): string {
  if (figure === undefined) return '–'
  const { low, high } = figure
  if (low === null || high === null) {
    if (figure.lower_bound === figure.upper_bound) return `${text(figure.value)} (no interval)`
    const mean = `from ${text(figure.lower_bound)} to ${text(figure.upper_bound)}`
    return `${text(figure.value)} (no interval; in the mean ${mean})`
  }
  return `${text(figure.value)} (${text(low)} to ${text(high)})`
}

/** The table, where the trace is of windows of a program. */
export function programSection(trace: TraceReport): HTMLElement | undefined {
  const rows = trace.rows.filter((row) => row.program !== undefined)
  const first = rows[0]?.program
  if (first === undefined) return undefined
  const columns: Column<Row>[] = [
    { title: 'Policy', value: (row) => row.policy, text: (row) => row.policy },
    {
      title: 'Mean cost (interval)',
      value: (row) => row.program?.mcpr.value,
      text: (row) => estimated(row.program?.mcpr, mcpr),
    },
    {
      title: 'Non-local % (interval)',
      value: (row) => row.program?.nonlocal_percent?.value,
      text: (row) => estimated(row.program?.nonlocal_percent, percent),
    },
  ]
  return h(
    'section',
    { 'data-chart': 'program' },
    h('h3', {}, 'The whole program, estimated'),
    h(
      'p',
      {},
      `From ${first.windows} windows of a program of about ${count(first.references)} references. In brackets: the ` +
        'interval that is made to hold the truth in 95 of 100 recordings; on a real program it did in 53 of 64. All ' +
        'other figures are of the windows alone.',
    ),
    table(rows, columns, { caption: 'Policies on the whole program, estimated from windows.', sortable: true }),
  )
}
