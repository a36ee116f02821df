// Pages and references by sharing class, and what each class costs.

import * as Plot from '@observablehq/plot'
import { figure, legend, nameMargin } from '../chart.ts'
import { h, table } from '../dom.ts'
import { count, integer, percent } from '../format.ts'
import type { ClassRow } from '../report.ts'

const SHARES = [
  { key: 'pages', label: 'share of pages', colour: '#0072B2' },
  { key: 'references', label: 'share of references', colour: '#E69F00' },
] as const

/** What the classes mean (docs/policies.md has the exact definitions). */
export const CLASSES: Record<string, string> = {
  private: 'one node makes all references, but at most one in a thousand',
  'read-shared': 'several nodes; hardly a write after the first node’s',
  migratory: 'several nodes read and write, one after the other, in long runs',
  'producer-consumer': 'one node writes, others read',
  'write-shared': 'everything else: several nodes write, finely mixed',
}

/** The chart of sharing classes. */
export function sharingChart(rows: readonly ClassRow[]): HTMLElement {
  const pages = rows.reduce((sum, row) => sum + row.pages, 0)
  const references = rows.reduce((sum, row) => sum + row.references, 0)
  const bars = rows.flatMap((row) =>
    SHARES.map((share) => ({
      class: row.class,
      share,
      percent:
        share.key === 'pages'
          ? (100 * row.pages) / Math.max(pages, 1)
          : (100 * row.references) / Math.max(references, 1),
    })),
  )
  const largest = [...rows].sort((a, b) => b.references - a.references)[0]
  const homing = rows.some((row) => row.homing_cost !== undefined)
  return figure({
    name: 'sharing',
    title: 'How pages are shared',
    note: 'Each page is in one class, by which nodes read and write it in the course of the run.',
    label: largest
      ? `Bar chart of sharing classes by share of pages and of references. Most references go to ${largest.class} ` +
        `pages: ${percent((100 * largest.references) / Math.max(references, 1))}.`
      : 'No sharing classes.',
    controls: [legend(SHARES)],
    draw: (width) => {
      if (rows.length === 0) return h('p', { class: 'empty' }, 'The report has no sharing classes.')
      const { margin } = nameMargin(
        rows.map((row) => row.class),
        width,
        0.45,
      )
      return Plot.plot({
        width,
        marginLeft: margin,
        marginRight: 60,
        marginBottom: 34,
        height: 50 + rows.length * 46,
        style: { fontSize: '13px', fontFamily: 'inherit', background: 'none' },
        x: {
          domain: [0, Math.max(10, ...bars.map((bar) => bar.percent))],
          nice: true,
          label: '%',
          grid: true,
          ticks: 5,
        },
        fy: { label: null, domain: rows.map((row) => row.class), axis: null, padding: 0.2 },
        y: { axis: null, domain: SHARES.map((share) => share.key), padding: 0.1 },
        marks: [
          Plot.barX(bars, { fy: 'class', y: (bar) => bar.share.key, x: 'percent', fill: (bar) => bar.share.colour }),
          Plot.text(bars, {
            fy: 'class',
            y: (bar) => bar.share.key,
            x: 'percent',
            text: (bar) => percent(bar.percent),
            textAnchor: 'start',
            dx: 5,
          }),
          Plot.text(rows, { fy: 'class', text: 'class', frameAnchor: 'left', textAnchor: 'end', dx: -8 }),
          Plot.ruleX([0]),
        ],
      })
    },
    table: table(
      rows,
      [
        { title: 'Class', value: (row) => row.class, text: (row) => row.class },
        { title: 'Meaning', value: (row) => CLASSES[row.class] ?? '', text: (row) => CLASSES[row.class] ?? '' },
        { title: 'Pages', value: (row) => row.pages, text: (row) => integer(row.pages) },
        { title: 'References', value: (row) => row.references, text: (row) => count(row.references) },
        { title: 'Writes', value: (row) => row.writes, text: (row) => count(row.writes) },
        {
          title: 'Cost, first touch',
          value: (row) => row.first_touch_cost,
          text: (row) => count(row.first_touch_cost),
        },
        ...(homing
          ? [
              {
                title: 'Cost, homing',
                value: (row: ClassRow) => row.homing_cost,
                text: (row: ClassRow) => count(row.homing_cost ?? Number.NaN),
              },
            ]
          : []),
        { title: 'Cost, optimum', value: (row) => row.optimal_cost, text: (row) => count(row.optimal_cost) },
      ],
      { caption: 'Pages, references and cost by sharing class' },
    ),
  })
}
