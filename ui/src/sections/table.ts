// The full table: every figure of every policy, sortable.

import { type Column, h, table } from '../dom.ts'
import { bytes, digits, integer, mcpr, percent, seconds } from '../format.ts'
import type { Row } from '../report.ts'
import { HOMING, named, OPTIMAL } from '../roles.ts'

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
    mark: (row) =>
      row.policy === OPTIMAL ? 'optimal' : row.policy === HOMING ? 'homing' : named(row) ? undefined : 'other',
  })
  element.dataset.chart = 'table'
  const others = rows.filter((row) => row.policy !== OPTIMAL && !named(row)).length
  return others === 0 || others === rows.length ? element : folding(element, rows.length)
}

/** The table with the policies that are not named behind a switch. */
function folding(element: HTMLElement, all: number): HTMLElement {
  const button = h('button', { type: 'button', class: 'unfold', 'aria-pressed': 'false' }, `Show all ${all} rows`)
  const box = h('div', { class: 'few' }, button, element)
  button.addEventListener('click', () => {
    const few = box.classList.toggle('few')
    button.setAttribute('aria-pressed', String(!few))
    button.textContent = few ? `Show all ${all} rows` : 'Show the named policies only'
  })
  return box
}
