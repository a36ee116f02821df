// The worst cells of a study, split by sharing class.

import * as Plot from '@observablehq/plot'
import { nameMargin } from '../chart.ts'
import { digits } from '../format.ts'
import { nodeColour } from '../palette.ts'
import type { Cell } from '../study-data.ts'

/** One bar a cell; `excess` is the part of its gap that arises on pages of a class. */
export function worstChart(
  bars: readonly { name: string; cell: Cell }[],
  classes: readonly string[],
  excess: (cell: Cell, name: string) => number,
  width: number,
): Element {
  const names = bars.map((bar) => bar.name)
  const { margin, fit } = nameMargin(names, width)
  const parts = bars.flatMap(({ name, cell }) =>
    classes.map((part) => ({ name, part, gap: Math.max(excess(cell, part), 0) })),
  )
  return Plot.plot({
    width,
    height: 60 + 24 * bars.length,
    marginLeft: margin,
    marginRight: 40,
    x: { label: 'gap in % of the optimal cost', grid: true },
    y: { domain: names, label: null, tickFormat: fit, tickSize: 0 },
    color: { domain: [...classes], range: classes.map((_, index) => nodeColour(index, 8)), legend: true },
    marks: [
      Plot.barX(parts, {
        x: 'gap',
        y: 'name',
        fill: 'part',
        title: (part) => `${part.name}\n${part.part}: ${digits(part.gap, 4)} %`,
      }),
      Plot.ruleX([0]),
    ],
  })
}
