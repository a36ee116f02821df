// Several traces in one report: geometric means per policy, and the tabs that lead to each trace.

import * as Plot from '@observablehq/plot'
import { figure, Fold, nameMargin } from '../chart.ts'
import { freshId, h, table } from '../dom.ts'
import { clip, count, mcpr, percent } from '../format.ts'
import type { MeanRow, TraceReport } from '../report.ts'
import { FIRST_TOUCH, HOMING, named, OPTIMAL } from '../roles.ts'

/** Geometric means over all traces. */
export function meansChart(rows: readonly MeanRow[], traces: number): HTMLElement {
  const optimal = rows.find((row) => row.policy === OPTIMAL)
  const policies = rows.filter((row) => row.policy !== OPTIMAL).sort((a, b) => a.gap_percent - b.gap_percent)
  const best = policies[0]
  const fold = new Fold(policies, named)
  return figure({
    name: 'means',
    title: `Over all ${traces} traces`,
    note:
      'How far each policy is from the optimum: the gap by geometric mean (bar) and on its worst trace (mark); both ' +
      'ends are labelled.',
    label:
      `Bar chart of the geometric mean gap of ${policies.length} policies over ${traces} ` +
      `traces${best ? `; the smallest is ${percent(best.gap_percent)} (${best.policy})` : ''}.`,
    controls: fold.controls,
    draw: (width) => {
      const shown = fold.shown
      if (shown.length === 0) return h('p', { class: 'empty' }, 'No policy ran on all traces.')
      const { margin, fit } = nameMargin(
        shown.map((row) => row.policy),
        width,
      )
      const tip = (row: MeanRow) =>
        `${row.policy}\nmean gap ${percent(row.gap_percent)}\nworst ${percent(row.worst_gap_percent)} ` +
        `(${row.worst_trace})`
      return Plot.plot({
        width,
        marginLeft: margin,
        marginRight: 120,
        marginBottom: 34,
        height: 54 + shown.length * 26,
        style: { fontSize: '13px', fontFamily: 'inherit', background: 'none' },
        x: { label: 'gap, %', grid: true, zero: true, ticks: Math.max(2, Math.floor((width - margin) / 90)) },
        y: { label: null, domain: shown.map((row) => row.policy), tickFormat: fit, tickSize: 0 },
        marks: [
          Plot.barX(shown, {
            x: 'gap_percent',
            y: 'policy',
            fill: (row: MeanRow) => (row.policy === HOMING ? 'var(--accent)' : 'var(--bar)'),
            insetTop: 3,
            insetBottom: 3,
            title: tip,
            tip: true,
          }),
          Plot.ruleY(shown, { x1: 'gap_percent', x2: 'worst_gap_percent', y: 'policy', stroke: 'var(--soft)' }),
          Plot.tickX(shown, {
            x: 'worst_gap_percent',
            y: 'policy',
            stroke: 'var(--ink)',
            strokeWidth: 2,
            insetTop: 6,
            insetBottom: 6,
          }),
          Plot.text(shown, {
            x: 'worst_gap_percent',
            y: 'policy',
            text: (row: MeanRow) => `${percent(row.gap_percent)} to ${percent(row.worst_gap_percent)}`,
            textAnchor: 'start',
            dx: 6,
          }),
          Plot.ruleX([0]),
        ],
      })
    },
    table: table(
      [...(optimal ? [optimal] : []), ...policies],
      [
        { title: 'Policy', value: (row) => row.policy, text: (row) => row.policy },
        { title: 'MCPR, geometric mean', value: (row) => row.mcpr, text: (row) => mcpr(row.mcpr) },
        { title: 'Gap, geometric mean', value: (row) => row.gap_percent, text: (row) => percent(row.gap_percent) },
        { title: 'Worst gap', value: (row) => row.worst_gap_percent, text: (row) => percent(row.worst_gap_percent) },
        { title: 'on', value: (row) => row.worst_trace, text: (row) => row.worst_trace },
      ],
      { caption: `Geometric means over ${traces} traces`, sortable: true },
    ),
  })
}

/** A line for each trace: where it stands and what could be gained. */
export function overview(traces: readonly TraceReport[]): HTMLElement {
  const row = (trace: TraceReport, policy: string) => trace.rows.find((one) => one.policy === policy)
  const policies = [FIRST_TOUCH, HOMING, OPTIMAL].filter((policy) => traces.some((trace) => row(trace, policy)))
  const element = table(
    traces,
    [
      { title: 'Trace', value: ({ trace }) => trace.name, text: ({ trace }) => trace.name },
      { title: 'References', value: ({ trace }) => trace.references, text: ({ trace }) => count(trace.references) },
      { title: 'Pages', value: ({ trace }) => trace.pages, text: ({ trace }) => count(trace.pages) },
      ...policies.map((policy) => ({
        title: `MCPR, ${policy}`,
        value: (trace: TraceReport) => row(trace, policy)?.mcpr,
        text: (trace: TraceReport) => mcpr(row(trace, policy)?.mcpr ?? Number.NaN),
      })),
      {
        title: 'Gap, homing',
        value: (trace) => row(trace, HOMING)?.gap_percent,
        text: (trace) => percent(row(trace, HOMING)?.gap_percent),
      },
    ],
    { caption: 'The traces of this report', sortable: true },
  )
  element.dataset.chart = 'overview'
  return h('section', { class: 'overview' }, element)
}

/** Panels behind tabs. `shown` is called when a panel comes to sight. In print all panels are shown. */
export function tabs(
  names: readonly string[],
  panels: readonly HTMLElement[],
  shown: (panel: HTMLElement) => void,
): HTMLElement {
  const list = h('div', { role: 'tablist', 'aria-label': 'Traces' })
  const buttons = names.map((name, i) => {
    const id = freshId('tab')
    const panel = panels[i]!
    panel.id = `${id}-panel`
    panel.setAttribute('role', 'tabpanel')
    panel.setAttribute('aria-labelledby', id)
    return h('button', { type: 'button', role: 'tab', id, 'aria-controls': panel.id, title: name }, clip(name, 40))
  })
  const select = (chosen: number) => {
    buttons.forEach((button, i) => {
      button.setAttribute('aria-selected', String(i === chosen))
      button.tabIndex = i === chosen ? 0 : -1
      panels[i]!.hidden = i !== chosen
    })
  }
  const open = (chosen: number) => {
    select(chosen)
    shown(panels[chosen]!)
  }
  buttons.forEach((button, i) => {
    button.addEventListener('click', () => open(i))
    button.addEventListener('keydown', (event) => {
      const last = buttons.length - 1
      const next = { ArrowRight: i === last ? 0 : i + 1, ArrowLeft: i === 0 ? last : i - 1, Home: 0, End: last }[
        event.key
      ]
      if (next === undefined) return
      event.preventDefault()
      open(next)
      buttons[next]!.focus()
    })
  })
  list.append(...buttons)
  select(0)
  return list
}
