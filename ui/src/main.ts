// The report page: reads the JSON inside the file and builds the page from it.

import { redraw } from './chart.ts'
import { h } from './dom.ts'
import { parse, type Report, ReportError, type TraceReport } from './report.ts'
import { cachesSection } from './sections/caches.ts'
import { costCharts } from './sections/cost.ts'
import { curveChart } from './sections/curves.ts'
import { levelsSection } from './sections/levels.ts'
import { meansChart, overview, tabs } from './sections/means.ts'
import { pageMapSection, redrawMaps } from './sections/pagemap.ts'
import { sharingChart } from './sections/sharing.ts'
import { sizesSection } from './sections/sizes.ts'
import { policyTable } from './sections/table.ts'
import { glossary, header, notes, perturbationSection, programName, provenance, summary } from './sections/text.ts'
import './style.css'

/** Everything about one trace. */
function tracePanel(trace: TraceReport, report: Report, single: boolean): HTMLElement {
  const { machine } = report
  return h(
    'div',
    { class: 'trace' },
    single ? undefined : h('h2', {}, programName(trace.trace)),
    summary(trace),
    provenance(trace.trace, machine),
    h('div', { class: 'pair' }, ...costCharts(trace.rows, machine)),
    h('section', {}, h('h3', {}, 'All figures'), policyTable(trace.rows, machine.page_size)),
    levelsSection(trace),
    sizesSection(trace),
    sharingChart(trace.sharing),
    pageMapSection(trace, machine),
    h('div', { class: 'pair' }, ...trace.curves.map(curveChart)),
    trace.perturbation.length > 0 ? perturbationSection(trace.perturbation) : undefined,
    cachesSection(trace.trace),
  )
}

function draw(root: HTMLElement): void {
  redraw(root)
  redrawMaps(root)
}

function build(report: Report, page: HTMLElement): void {
  const single = report.traces.length === 1
  page.append(header(report))
  if (report.traces.length > 1) page.append(overview(report.traces))
  if (report.means.length > 0) page.append(meansChart(report.means, report.traces.length))
  const panels = report.traces.map((trace) => tracePanel(trace, report, single))
  if (panels.length === 0) page.append(h('p', { class: 'empty' }, 'The report holds no trace.'))
  if (panels.length > 1)
    page.append(
      tabs(
        report.traces.map(({ trace }) => trace.name),
        panels,
        draw,
      ),
    )
  page.append(...panels, notes(report), glossary())
  draw(page)
  follow(page)
}

/** Pixels of a sheet of A4 between its margins, and of one of two charts or page maps beside each other. */
const SHEET = { whole: 690, half: 335 }

/** Draws anew when the width changes, and for paper before printing, where all panels are shown. */
function follow(page: HTMLElement): void {
  let width = page.clientWidth
  let timer = 0
  new ResizeObserver(() => {
    if (page.clientWidth === width) return
    width = page.clientWidth
    clearTimeout(timer)
    timer = window.setTimeout(() => draw(page), 80)
  }).observe(page)
  window.addEventListener('beforeprint', () => {
    redraw(page, (chart) => (chart.parentElement?.matches('.pair:has(> :nth-child(2))') ? SHEET.half : SHEET.whole))
    redrawMaps(page, SHEET.half)
  })
  window.addEventListener('afterprint', () => draw(page))
}

function start(): void {
  const page = document.getElementById('page')!
  try {
    build(parse(document.getElementById('homing-report')!.textContent ?? ''), page)
  } catch (error) {
    page.replaceChildren(
      h('h1', {}, 'Homing report'),
      h('p', { class: 'warning', role: 'alert' }, (error as Error).message),
    )
    if (!(error instanceof ReportError)) throw error
  } finally {
    document.documentElement.dataset.ready = 'true'
  }
}

start()
