// Curves of MCPR against page-move cost and page size, policies as lines.

import * as Plot from '@observablehq/plot'
import { figure, redrawOne } from '../chart.ts'
import { h, table } from '../dom.ts'
import { bytes, digits, mcpr, short } from '../format.ts'
import { lineStyle } from '../palette.ts'
import type { Curve, CurvePoint, Series } from '../report.ts'
import { FIRST_TOUCH, HOMING, OPTIMAL } from '../roles.ts'

/** A line as it is drawn. */
interface Line {
  series: Series
  colour: string
  dash: string
  width: number
  shown: boolean
}

/** At first no more than this many lines are drawn; the others wait in the legend. */
const LINES = 7

/** Styles the lines of a curve and decides which are shown at first: the named ones, then those nearest the optimum. */
export function lines(all: readonly Series[]): Line[] {
  const drawable = all.filter((series) => series.points.length > 0)
  const mean = (series: Series) => series.points.reduce((sum, point) => sum + point.mcpr, 0) / series.points.length
  const named = drawable.filter((series) => [OPTIMAL, HOMING, FIRST_TOUCH].includes(series.policy))
  const near = drawable.filter((series) => !named.includes(series)).sort((a, b) => mean(a) - mean(b))
  const shown = new Set([...named, ...near].slice(0, LINES))
  let index = 0
  return [...named, ...near].map((series) => {
    if (series.policy === OPTIMAL) return { series, colour: 'var(--ink)', dash: '5 3', width: 2, shown: true }
    if (series.policy === HOMING) return { series, colour: 'var(--accent)', dash: 'none', width: 3, shown: true }
    const style = lineStyle(index)
    index += 1
    return { series, ...style, width: 1.8, shown: shown.has(series) }
  })
}

const TITLES: Record<string, { title: string; axis: string; note: string }> = {
  'page-move': {
    title: 'If moving a page cost more or less',
    axis: 'cost of a page move (local references)',
    note: 'MCPR against the cost of a page move.',
  },
  'page-size': {
    title: 'If pages were larger or smaller',
    axis: 'page size',
    note: 'MCPR against the page size. Larger pages are shared falsely by more nodes, and cost more to move.',
  },
}

/** The figure of one curve. */
export function curveChart(curve: Curve): HTMLElement {
  const words = TITLES[curve.parameter] ?? {
    title: `Against ${curve.parameter}`,
    axis: `${curve.parameter} (${curve.unit})`,
    note: 'MCPR.',
  }
  const all = lines(curve.series)
  const exact = curve.series.find((series) => series.exact)
  const dots = exact
    ? `The line of ${exact.policy} is exact: a concave chain of straight lines, whose break-points are its dots.`
    : 'The dots are samples.'
  const element: HTMLElement = figure({
    name: `curve-${curve.parameter}`,
    title: words.title,
    note: `${words.note} ${dots}`,
    label:
      `Line chart of mean cost per reference against ${words.axis} for ${all.length} ` +
      `policies${exact ? `; the ${exact.policy} line is exact, with ${exact.points.length} points` : ''}.`,
    controls: [toggles(all, () => redrawOne(element))],
    draw: (width) => draw(curve, all, words.axis, width),
    table: pointTable(curve, all),
  })
  return element
}

/** The legend: a button a line, pressed while the line is shown. */
function toggles(all: readonly Line[], changed: () => void): HTMLElement {
  const buttons = all.map((line) => {
    const button = h('button', { type: 'button', 'aria-pressed': String(line.shown) })
    const dash = line.dash === 'none' ? '' : line.dash
    const sample = `<svg width="28" height="8" aria-hidden="true"><line x1="0" y1="4" x2="28" y2="4" ` +
      `stroke="${line.colour}" stroke-width="${line.width}" stroke-dasharray="${dash}"/></svg>`
    button.innerHTML = sample
    button.append(line.series.policy)
    button.addEventListener('click', () => {
      line.shown = !line.shown
      button.setAttribute('aria-pressed', String(line.shown))
      changed()
    })
    return button
  })
  return h('div', { class: 'toggles', role: 'group', 'aria-label': 'Lines shown' }, ...buttons)
}

function draw(curve: Curve, all: readonly Line[], axis: string, width: number): Element {
  const shown = all.filter((line) => line.shown)
  const points = shown.flatMap((line) => line.series.points.map((point) => ({ ...point, line })))
  if (points.length === 0) return h('p', { class: 'empty' }, 'No line is shown.')
  const isSize = curve.unit === 'bytes'
  const xs = points.map((point) => point.x)
  const [low, high] = [Math.min(...xs), Math.max(...xs)]
  const log = low > 0 && high / low > 30
  const xText = (x: number) => (isSize ? bytes(x) : short(x))
  return Plot.plot({
    width,
    height: Math.min(420, Math.max(280, width * 0.5)),
    marginLeft: 54,
    marginRight: 24,
    marginTop: 26,
    marginBottom: 50,
    style: { fontSize: '13px', fontFamily: 'inherit', background: 'none' },
    x: {
      label: axis,
      labelAnchor: 'center',
      labelOffset: 40,
      type: isSize || log ? 'log' : 'linear',
      ...(isSize ? { base: 2 } : {}),
      domain: low === high ? [low * 0.5, high * 2 || 1] : [low, high],
      ticks: Math.max(2, Math.floor(width / 110)),
      tickFormat: xText,
    },
    y: { label: 'MCPR', grid: true, nice: true, tickFormat: (y: number) => digits(y, 4), ticks: 6 },
    marks: [
      ...(curve.here !== undefined && curve.here >= low && curve.here <= high
        ? [
            Plot.ruleX([curve.here], { stroke: 'var(--soft)', strokeDasharray: '2 3' }),
            Plot.text([curve.here], {
              x: (x: number) => x,
              frameAnchor: 'top',
              dy: -13,
              text: () => 'this machine',
              fill: 'var(--soft)',
              textAnchor:
                (log ? Math.log(curve.here / low) / Math.log(high / low) : (curve.here - low) / (high - low || 1)) > 0.7
                  ? 'end'
                  : 'start',
            }),
          ]
        : []),
      ...[...shown].reverse().map((line) =>
        Plot.line(line.series.points, {
          x: 'x',
          y: 'mcpr',
          stroke: line.colour,
          strokeWidth: line.width,
          strokeDasharray: line.dash,
        }),
      ),
      Plot.dot(
        points.filter((point) => dotted(point.line)),
        { x: 'x', y: 'mcpr', fill: (point) => point.line.colour, r: 2.5 },
      ),
      Plot.tip(
        points,
        Plot.pointer({
          x: 'x',
          y: 'mcpr',
          title: (point: CurvePoint & { line: Line }) =>
            `${point.line.series.policy}\n${xText(point.x)}: MCPR ` +
            `${mcpr(point.mcpr)}\n${digits(point.moves_per_page, 3)} moves a page`,
        }),
      ),
    ],
  })
}

/** Break-points are dots while they can be told apart; samples of page size always are. */
function dotted(line: Line): boolean {
  return line.series.points.length <= (line.series.exact ? 120 : 24)
}

function pointTable(curve: Curve, all: readonly Line[]): HTMLElement {
  const rows = all.flatMap(({ series }) =>
    series.points.map((point) => ({ policy: series.policy, exact: series.exact, ...point })),
  )
  const x = curve.unit === 'bytes' ? bytes : (value: number) => digits(value, 6)
  return table(
    rows,
    [
      { title: 'Policy', value: (row) => row.policy, text: (row) => row.policy },
      { title: curve.parameter, value: (row) => row.x, text: (row) => x(row.x) },
      { title: 'MCPR', value: (row) => row.mcpr, text: (row) => mcpr(row.mcpr) },
      { title: 'Local', value: (row) => row.local, text: (row) => digits(row.local, 4) },
      { title: 'Remote', value: (row) => row.remote, text: (row) => digits(row.remote, 4) },
      { title: 'Global', value: (row) => row.global, text: (row) => digits(row.global, 4) },
      { title: 'Page copies', value: (row) => row.copies, text: (row) => digits(row.copies, 4) },
      { title: 'Moves / page', value: (row) => row.moves_per_page, text: (row) => digits(row.moves_per_page, 3) },
      { title: 'Point', value: (row) => Number(row.exact), text: (row) => (row.exact ? 'break-point' : 'sample') },
    ],
    { caption: `MCPR and its parts against ${curve.parameter} (${curve.unit})` },
  )
}
