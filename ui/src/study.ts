// The page of a study: a heat map of gaps, the worst cells by name, recovered shares, and where the worst cells pay.

import { figure, redraw } from './chart.ts'
import { h, table, type Column } from './dom.ts'
import { digits, percent } from './format.ts'
import { type Cell, Groups, mean, parseStudy, recovered, type Study, StudyError } from './study-data.ts'
import { heatMap } from './sections/heat.ts'
import { worstChart } from './sections/worst.ts'
import './style.css'

/** Cells that the list of the worst names. */
const WORST = 20

function gaps(study: Study): HTMLElement {
  const groups = new Groups(study.cells)
  const chart = figure({
    name: 'gaps',
    title: 'Gap to the optimum',
    note:
      'Geometric mean over the traces, in per cent of the optimal cost; darker is worse. Rows are policies, best ' +
      'first; columns are machine, start and what the policy sees.',
    label: `Heat map of gaps: ${groups.policies.length} policies by ${groups.columns.length} settings`,
    draw: (width) => heatMap(groups, width),
    table: gapTable(groups),
  })
  return chart
}

function gapTable(groups: Groups): HTMLElement {
  const columns: Column<string>[] = [
    { title: 'policy', value: (policy) => policy, text: (policy) => policy },
    ...groups.columns.map((column) => ({
      title: column,
      value: (policy: string) => groups.gap(policy, column),
      text: (policy: string) => {
        const gap = groups.gap(policy, column)
        return gap === undefined ? '' : digits(gap, 3)
      },
    })),
  ]
  return table(groups.policies, columns, { caption: 'Geometric mean of the gap in per cent', sortable: true })
}

function policies(study: Study): HTMLElement {
  const groups = new Groups(study.cells)
  const share = (policy: string) => mean(study.cells.filter((cell) => cell.policy === policy).map(recovered))
  const worst = (policy: string) =>
    study.cells.filter((cell) => cell.policy === policy).reduce((a, b) => (b.gap_percent > a.gap_percent ? b : a))
  const columns: Column<string>[] = [
    { title: 'policy', value: (policy) => policy, text: (policy) => policy },
    {
      title: 'mean gap %',
      value: (policy) => groups.gap(policy),
      text: (policy) => digits(groups.gap(policy) ?? NaN, 3),
    },
    {
      title: 'recovered share',
      help:
        '(first touch − cost) / (first touch − optimum), mean over cells in which first touch costs at least 1 % ' +
        'more than the optimum',
      value: share,
      text: (policy) => percent(share(policy)),
    },
    {
      title: 'worst gap %',
      value: (policy) => worst(policy).gap_percent,
      text: (policy) => digits(worst(policy).gap_percent, 3),
    },
    { title: 'where', value: (policy) => place(worst(policy)), text: (policy) => place(worst(policy)) },
  ]
  const caption = 'Each policy over all its cells'
  return h('section', {}, h('h2', {}, 'Policies'), table(groups.policies, columns, { caption, sortable: true }))
}

function place(cell: Cell): string {
  return [cell.trace, cell.machine, cell.start, cell.information].join(' · ')
}

function worst(study: Study): HTMLElement {
  // Costs by class are not known where a monitor is in the loop.
  const split = study.cells.filter((cell) => cell.classes.length > 0)
  const cells = split.sort((a, b) => b.gap_percent - a.gap_percent).slice(0, WORST)
  const classes = cells[0]?.classes.map((part) => part.class) ?? []
  const excess = (cell: Cell, name: string) => {
    const part = cell.classes.find((part) => part.class === name)
    return part ? (100 * (part.cost - part.optimal_cost)) / Math.max(cell.optimal_cost, 1) : 0
  }
  const columns: Column<Cell>[] = [
    {
      title: 'cell',
      value: (cell) => `${cell.policy}: ${place(cell)}`,
      text: (cell) => `${cell.policy}: ${place(cell)}`,
    },
    { title: 'gap %', value: (cell) => cell.gap_percent, text: (cell) => digits(cell.gap_percent, 4) },
    ...classes.map((name) => ({
      title: name,
      value: (cell: Cell) => excess(cell, name),
      text: (cell: Cell) => digits(excess(cell, name), 3),
    })),
  ]
  return figure({
    name: 'worst',
    title: 'The worst cells, and on which pages they pay',
    note:
      'The gap of each cell, split by the sharing class of the pages on which it arises.' +
      (split.length < study.cells.length ? ' Cells with monitors are not split: their misses are their own.' : ''),
    label: `The ${cells.length} cells with the largest gaps, split by sharing class`,
    draw: (width) =>
      worstChart(
        cells.map((cell) => ({ name: `${cell.policy} · ${place(cell)}`, cell })),
        classes,
        excess,
        width,
      ),
    table: table(cells, columns, { caption: 'Gap by sharing class, in per cent of the optimal cost', sortable: true }),
  })
}

function manifest(study: Study): HTMLElement {
  const columns: Column<{ name: string; value: string }>[] = [
    { title: 'parameter', value: (item) => item.name, text: (item) => item.name },
    { title: 'value', value: (item) => item.value, text: (item) => item.value },
  ]
  return h(
    'details',
    {},
    h('summary', {}, `Every parameter of the study (${study.generator})`),
    table(study.parameters, columns, { caption: 'Manifest' }),
  )
}

function build(study: Study, page: HTMLElement): void {
  const traces = new Set(study.cells.map((cell) => cell.trace)).size
  page.append(
    h(
      'header',
      {},
      h('h1', {}, 'Homing study'),
      h('p', {}, `${study.cells.length} cells over ${traces} traces. Costs are modelled, in local word references.`),
    ),
  )
  if (study.cells.length === 0) page.append(h('p', { class: 'empty' }, 'The study holds no cell.'))
  else page.append(gaps(study), policies(study), worst(study))
  for (const note of study.notes ?? []) page.append(h('p', {}, `Note: ${note}.`))
  page.append(manifest(study))
  redraw(page)
  let width = page.clientWidth
  new ResizeObserver(() => {
    if (page.clientWidth === width) return
    width = page.clientWidth
    redraw(page)
  }).observe(page)
}

function start(): void {
  const page = document.getElementById('page')!
  try {
    build(parseStudy(document.getElementById('homing-report')!.textContent ?? ''), page)
  } catch (error) {
    page.replaceChildren(
      h('h1', {}, 'Homing study'),
      h('p', { class: 'warning', role: 'alert' }, (error as Error).message),
    )
    if (!(error instanceof StudyError)) throw error
  } finally {
    document.documentElement.dataset.ready = 'true'
  }
}

start()
