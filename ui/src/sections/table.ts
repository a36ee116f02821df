// The full table: every figure of every policy, sortable.

import { type Column, table } from '../dom.ts'
import { few, mark } from '../few.ts'
import { bytes, digits, integer, mcpr, percent, seconds } from '../format.ts'
import type { Row } from '../report.ts'

const COLUMNS: Column<Row>[] = [
  { title: 'Policy', value: (row) => row.policy, text: (row) => row.policy },
  {
    title: 'MCPR',
    help: 'mean cost per reference; 1 is all-local',
    value: (row) => row.mcpr,
    text: (row) => mcpr(row.mcpr),
  },
  {
    title: 'Gap',
    help: '(cost - optimal cost) / optimal cost',
    value: (row) => row.gap_percent,
    text: (row) => percent(row.gap_percent),
  },
  {
    title: 'Recovered',
    help: 'share of what can be gained over first touch; 100 % is the optimum, below 0 is worse than first touch',
    value: (row) => row.recovered_percent,
    text: (row) => (row.recovered_percent === undefined ? '–' : percent(row.recovered_percent)),
  },
  {
    title: 'Non-local',
    help: 'references served by another node',
    value: (row) => row.nonlocal_percent,
    text: (row) => percent(row.nonlocal_percent),
  },
  {
    title: 'Moves / page',
    help: '(moves + replications) / pages',
    value: (row) => row.moves_per_page,
    text: (row) => digits(row.moves_per_page, 3),
  },
  { title: 'Moves', value: (row) => row.moves, text: (row) => integer(row.moves) },
  { title: 'Replications', value: (row) => row.replications, text: (row) => integer(row.replications) },
  { title: 'Local', help: 'references', value: (row) => row.local, text: (row) => integer(row.local) },
  { title: 'Remote', help: 'references', value: (row) => row.remote, text: (row) => integer(row.remote) },
  {
    title: 'Global',
    help: 'references to global memory',
    value: (row) => row.global,
    text: (row) => integer(row.global),
  },
  { title: 'Cost', help: 'in local references', value: (row) => row.cost, text: (row) => integer(row.cost) },
  {
    title: 'Computed in',
    help: 'wall-clock time of this row (measured)',
    value: (row) => row.seconds,
    text: (row) => seconds(row.seconds),
  },
]

/** The table of all rows. Columns that are zero everywhere (global memory, replications) are left out. */
export function policyTable(rows: readonly Row[], pageSize: number | undefined): HTMLElement {
  const empty = (title: string, field: (row: Row) => number) => (column: Column<Row>) =>
    column.title !== title || rows.some((row) => field(row) !== 0)
  const columns = COLUMNS.filter(empty('Global', (row) => row.global)).filter(
    empty('Replications', (row) => row.replications),
  )
  const size = pageSize === undefined ? '' : `, pages of ${bytes(pageSize)}`
  const element = table(rows, columns, {
    caption: `All policies${size}.`,
    sortable: true,
    mark,
  })
  element.dataset.chart = 'table'
  return few(element, rows)
}
