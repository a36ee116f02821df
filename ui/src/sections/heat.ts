// The heat map of gaps.

import * as Plot from '@observablehq/plot'
import { nameMargin } from '../chart.ts'
import { digits } from '../format.ts'
import type { Groups } from '../study-data.ts'

const ROW = 26

/** Gaps by policy and setting. The colour scale is logarithmic: 1 % and 10 % differ as much as 10 % and 100 %. */
export function heatMap(groups: Groups, width: number): Element {
  const { margin, fit } = nameMargin(groups.policies, width)
  const items = groups.policies.flatMap((policy) =>
    groups.columns.flatMap((column) => {
      const gap = groups.gap(policy, column)
      return gap === undefined ? [] : [{ policy, column, gap }]
    }),
  )
  const heat = (gap: number) => Math.log10(Math.max(gap, 0.1) / 0.1)
  const hottest = Math.max(1, ...items.map((item) => heat(item.gap)))
  const top = Math.min(340, 24 + 6 * Math.max(...groups.columns.map((column) => column.length)))
  return Plot.plot({
    width,
    height: top + ROW * groups.policies.length + 10,
    marginLeft: margin,
    marginTop: top,
    marginRight: 110,
    x: { domain: groups.columns, axis: 'top', tickRotate: -60, label: null, tickSize: 0 },
    y: { domain: groups.policies, label: null, tickFormat: fit, tickSize: 0 },
    color: { type: 'linear', scheme: 'YlOrRd', domain: [0, hottest] },
    marks: [
      Plot.cell(items, {
        x: 'column',
        y: 'policy',
        fill: (item) => heat(item.gap),
        inset: 0.5,
        title: (item) => `${item.policy}\n${item.column}\n${digits(item.gap, 4)} %`,
      }),
      Plot.text(items, {
        x: 'column',
        y: 'policy',
        text: (item) => digits(item.gap, 2),
        fill: (item) => (heat(item.gap) > 0.6 * hottest ? 'white' : 'black'),
      }),
    ],
  })
}
