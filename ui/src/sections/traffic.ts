// Who fetches from whose memory, as it is and with the remedies: a matrix of nodes each.

import { csv, csvButton } from '../csv.ts'
import { h } from '../dom.ts'
import { count, digits, percent } from '../format.ts'
import type { TrafficReport, WhyReport } from '../report.ts'
import { term } from '../terms.ts'

/** Both matrices. */
export function trafficMatrices(why: WhyReport): HTMLElement {
  const { now, with_remedies: then } = why.traffic
  const top = Math.max(1, ...now.by_node.flat(), ...then.by_node.flat())
  const used = now.by_node.map((_, node) => node).filter((node) => works(now, node) || works(then, node))
  const idle = now.by_node.length - used.length
  return h(
    'div',
    { 'data-chart': 'traffic' },
    h('div', { class: 'matrices' }, matrix('As it is', now, top, used), matrix('With the remedies', then, top, used)),
    idle > 0 ? h('p', { class: 'note' }, `${count(idle)} more nodes refer to nothing and serve nothing.`) : undefined,
  )
}

/** Whether a node refers to anything or serves anything. */
function works({ by_node: rows }: TrafficReport, node: number): boolean {
  return rows.some((row, by) => (row[node] ?? 0) > 0 || (by === node && row.some((value) => value > 0)))
}

function matrix(title: string, traffic: TrafficReport, top: number, nodes: readonly number[]): HTMLElement {
  const { by_node: rows } = traffic
  const all = rows.flat().reduce((sum, one) => sum + one, 0)
  const share = (value: number) => percent((100 * value) / Math.max(all, 1))
  const cell = (value: number, by: number, home: number) =>
    h(
      'td',
      {
        class: by === home ? 'number local' : 'number',
        style: `--heat:${((75 * value) / top).toFixed(1)}%`,
        title: `CPUs of node ${by} fetch ${count(value)} from memory ${home}`,
        'data-value': value,
      },
      share(value),
    )
  const sum = (value: number) => h('td', { class: 'number sum' }, share(value))
  const served = nodes.map((home) => rows.reduce((total, row) => total + (row[home] ?? 0), 0))
  const body = nodes.map((by) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, `node ${by}`),
      ...nodes.map((home) => cell(rows[by]![home] ?? 0, by, home)),
      sum(rows[by]!.reduce((a, b) => a + b, 0)),
    ),
  )
  const last = h('tr', { class: 'sum' }, h('th', { scope: 'row' }, 'served'), ...served.map(sum), sum(all))
  const head = nodes.map((node) =>
    h('th', { scope: 'col', class: 'number', 'aria-label': `memory ${node}` }, String(node)),
  )
  const caption = `${title}: share of references from CPUs (rows) to memories (columns)`
  const save = csvButton(`traffic ${title}`, () =>
    csv([
      ['CPUs of', ...nodes.map((node) => `memory ${node}`)],
      ...nodes.map((by) => [`node ${by}`, ...nodes.map((home) => rows[by]![home])]),
    ]),
  )
  return h(
    'div',
    { class: 'matrix' },
    h('h3', {}, title),
    h(
      'p',
      { class: 'note' },
      term('non-local'),
      ` ${percent(traffic.nonlocal_percent)}; busiest memory `,
      term('imbalance', `${digits(traffic.imbalance, 3)}× the mean`),
    ),
    h(
      'div',
      { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': caption },
      h(
        'table',
        {},
        h('caption', {}, caption, ' ', save),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('td'),
            h('th', { scope: 'colgroup', colspan: nodes.length, class: 'number' }, 'memory of node'),
            h('td'),
          ),
          h('tr', {}, h('th', { scope: 'col' }, 'CPUs of'), ...head, h('th', { scope: 'col', class: 'number' }, 'all')),
        ),
        h('tbody', {}, ...body, last),
      ),
    ),
  )
}
