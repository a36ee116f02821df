// Bars of MCPR per policy with the optimum as a line, and where each policy's cost goes.

import * as Plot from '@observablehq/plot'
import { figure, Fold, legend, nameMargin } from '../chart.ts'
import { h, table } from '../dom.ts'
import { digits, integer, mcpr, percent } from '../format.ts'
import { COST_PARTS } from '../palette.ts'
import type { MachineInfo, Row } from '../report.ts'
import { HOMING, named, OPTIMAL } from '../roles.ts'

/** The policies without the optimum, cheapest first. */
export function ranked(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row.policy !== OPTIMAL).sort((a, b) => a.mcpr - b.mcpr)
}

/** A row's mean cost per reference, by where it goes. */
export interface Split {
  policy: string
  local: number
  remote: number
  global: number
  copies: number
}

/** Splits a row's MCPR. The part of global memory needs its access cost; elsewhere there is none. */
export function split(row: Row, machine: Pick<MachineInfo, 'global'>): Split {
  const n = Math.max(row.references, 1)
  const global = row.global * (machine.global ?? 0)
  const remote = Math.max(row.cost - row.copy_cost - row.local - global, 0)
  // On machines whose own memory does not cost exactly 1, no remote references must mean no remote cost.
  const local = row.remote === 0 ? row.cost - row.copy_cost - global : row.local
  const far = row.remote === 0 ? 0 : remote
  return { policy: row.policy, local: local / n, remote: far / n, global: global / n, copies: row.copy_cost / n }
}

/** The two charts of cost. */
export function costCharts(rows: readonly Row[], machine: MachineInfo): HTMLElement[] {
  return [mcprChart(rows), splitChart(rows, machine)]
}

function mcprChart(rows: readonly Row[]): HTMLElement {
  const optimal = rows.find((row) => row.policy === OPTIMAL)
  const policies = ranked(rows)
  const fold = new Fold(policies, named)
  const best = policies[0]
  const label =
    `Bar chart of mean cost per reference of ${policies.length} policies` +
    (best
      ? `, from ${mcpr(best.mcpr)} (${best.policy}) to ${mcpr(policies.at(-1)!.mcpr)} (${policies.at(-1)!.policy})`
      : '') +
    (optimal ? `; the optimum is ${mcpr(optimal.mcpr)}.` : '.')
  return figure({
    name: 'mcpr',
    title: 'Mean cost per reference',
    note:
      'In local references: 1, where the bars begin, would be all-local without a page copy. No policy can be ' +
      'left of the dashed line, the optimum.',
    label,
    controls: fold.controls,
    draw: (width) => drawMcpr(fold.shown, optimal, width),
    table: table(
      [...(optimal ? [optimal] : []), ...policies],
      [
        { title: 'Policy', value: (row) => row.policy, text: (row) => row.policy },
        { title: 'MCPR', value: (row) => row.mcpr, text: (row) => mcpr(row.mcpr) },
        { title: 'Gap', value: (row) => row.gap_percent, text: (row) => percent(row.gap_percent) },
      ],
      { caption: 'Mean cost per reference by policy' },
    ),
  })
}

function drawMcpr(policies: readonly Row[], optimal: Row | undefined, width: number): Element {
  if (policies.length === 0 && !optimal) return h('p', { class: 'empty' }, 'No policy was compared.')
  const { margin, fit } = nameMargin(
    policies.map((row) => row.policy),
    width,
  )
  const top = Math.max(optimal?.mcpr ?? 0, ...policies.map((row) => row.mcpr), 1)
  const opt = optimal?.mcpr
  // All-local is the least where a local reference costs 1: what is above it is what placement is about.
  const base = [...policies, ...(optimal ? [optimal] : [])].every((row) => row.mcpr >= 1) && top > 1 ? 1 : 0
  return Plot.plot({
    width,
    marginLeft: margin,
    marginRight: 62,
    marginTop: 30,
    marginBottom: 34,
    height: 64 + Math.max(policies.length, 1) * 26,
    style: { fontSize: '13px', fontFamily: 'inherit', background: 'none' },
    x: { label: 'MCPR', domain: [base, top], grid: true, ticks: Math.max(2, Math.floor((width - margin) / 90)) },
    y: { label: null, domain: policies.map((row) => row.policy), tickFormat: fit, tickSize: 0 },
    marks: [
      Plot.barX(policies, {
        x1: base,
        x2: 'mcpr',
        y: 'policy',
        fill: (row: Row) => (row.policy === HOMING ? 'var(--accent)' : 'var(--bar)'),
        insetTop: 3,
        insetBottom: 3,
        title: (row: Row) => `${row.policy}\nMCPR ${mcpr(row.mcpr)}\n${percent(row.gap_percent)} above the optimum`,
        tip: true,
      }),
      Plot.text(policies, {
        x: 'mcpr',
        y: 'policy',
        text: (row: Row) => mcpr(row.mcpr),
        textAnchor: 'start',
        dx: 5,
        fill: 'currentColor',
      }),
      ...(opt === undefined
        ? []
        : [
            Plot.ruleX([opt], { stroke: 'var(--ink)', strokeWidth: 2, strokeDasharray: '5 3' }),
            Plot.text([opt], {
              x: (value: number) => value,
              frameAnchor: 'top',
              dy: -16,
              text: (value: number) => `optimum ${mcpr(value)}`,
              textAnchor: opt > top * 0.6 ? 'end' : 'start',
              fontWeight: 600,
            }),
          ]),
    ],
  })
}

function splitChart(rows: readonly Row[], machine: MachineInfo): HTMLElement {
  const optimal = rows.find((row) => row.policy === OPTIMAL)
  const fold = new Fold([...(optimal ? [optimal] : []), ...ranked(rows)], (row) => row === optimal || named(row))
  const parts = COST_PARTS.filter((part) => part.key !== 'global' || rows.some((row) => row.global > 0))
  return figure({
    name: 'split',
    title: 'Where the cost goes',
    note:
      'The same totals, split into local, remote and global-memory references, and page copies (moves and ' +
      'replications).',
    label:
      `Stacked bar chart: mean cost per reference of ${fold.all.length} placements, split into ` +
      `${parts.map((part) => part.label).join(', ')}.`,
    controls: [legend(parts), ...fold.controls],
    draw: (width) =>
      drawSplit(
        fold.shown.map((row) => split(row, machine)),
        parts,
        width,
      ),
    table: table(
      fold.all.map((row) => ({ row, cost: split(row, machine) })),
      [
        { title: 'Policy', value: ({ row }) => row.policy, text: ({ row }) => row.policy },
        ...parts.map((part) => ({
          title: part.label,
          value: ({ cost }: { cost: Split }) => cost[part.key],
          text: ({ cost }: { cost: Split }) => digits(cost[part.key], 4),
        })),
        { title: 'MCPR', value: ({ row }) => row.mcpr, text: ({ row }) => mcpr(row.mcpr) },
        { title: 'Cost', value: ({ row }) => row.cost, text: ({ row }) => integer(row.cost) },
      ],
      { caption: 'Mean cost per reference by where it goes' },
    ),
  })
}

function drawSplit(rows: readonly Split[], parts: readonly (typeof COST_PARTS)[number][], width: number): Element {
  if (rows.length === 0) return h('p', { class: 'empty' }, 'No policy was compared.')
  const { margin, fit } = nameMargin(
    rows.map((row) => row.policy),
    width,
  )
  const pieces = rows.flatMap((row) => parts.map((part) => ({ policy: row.policy, part, value: row[part.key] })))
  return Plot.plot({
    width,
    marginLeft: margin,
    marginRight: 20,
    marginBottom: 34,
    height: 54 + rows.length * 26,
    style: { fontSize: '13px', fontFamily: 'inherit', background: 'none' },
    x: { label: 'cost per reference', grid: true, ticks: Math.max(2, Math.floor((width - margin) / 90)) },
    y: { label: null, domain: rows.map((row) => row.policy), tickFormat: fit, tickSize: 0 },
    marks: [
      Plot.barX(pieces, {
        x: 'value',
        y: 'policy',
        fill: (piece) => piece.part.colour,
        order: null,
        insetTop: 3,
        insetBottom: 3,
        title: (piece) => `${piece.policy}\n${piece.part.label}: ${digits(piece.value, 4)}`,
        tip: true,
      }),
      Plot.ruleX([0]),
    ],
  })
}
