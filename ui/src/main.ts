// The report page: reads the JSON inside the file and builds the page from it.

import { redraw } from './chart.ts'
import { Contents, part } from './contents.ts'
import { h } from './dom.ts'
import type { Paged } from './paged.ts'
import { parse, type AreaReport, type Report, ReportError, type TraceReport } from './report.ts'
import { areasTable } from './sections/areas.ts'
import { cachesSection } from './sections/caches.ts'
import { costCharts } from './sections/cost.ts'
import { curveChart } from './sections/curves.ts'
import { levelsSection } from './sections/levels.ts'
import { sourceLines } from './sections/lines.ts'
import { meansChart, overview, tabs } from './sections/means.ts'
import { pageMapSection, redrawMaps } from './sections/pagemap.ts'
import { programSection } from './sections/program.ts'
import { sharingChart } from './sections/sharing.ts'
import { sizesSection } from './sections/sizes.ts'
import { policyTable } from './sections/table.ts'
import { glossary, header, notes, perturbationSection, programName, provenance, summary } from './sections/text.ts'
import { trafficMatrices } from './sections/traffic.ts'
import { verdictCard } from './sections/verdict.ts'
import { all } from './sight.ts'
import { explainTerms } from './terms.ts'
import './style.css'

/** A trace's part of the page. */
interface Panel {
  element: HTMLElement
  areas: Paged<AreaReport> | undefined
}

/** Everything about one trace. `id`: what its sections' names begin with. */
function tracePanel(trace: TraceReport, report: Report, single: boolean, id: string): Panel {
  const { machine } = report
  const { why } = trace
  // What was recorded does not tell: figures would look like an answer.
  const known = why && why.verdict !== 'not-known' ? why : undefined
  const areas = known ? areasTable(trace, known, (area) => linkTo(area)) : undefined
  const curves = trace.curves.map(curveChart)
  const element = h(
    'div',
    { class: 'trace' },
    single ? undefined : h('h2', { class: 'trace-name' }, programName(trace.trace)),
    why ? verdictCard(why) : summary(trace),
    areas && part(`${id}areas`, 'Areas', areas.element),
    known && part(`${id}traffic`, 'Traffic', trafficMatrices(known)),
    known && part(`${id}lines`, 'Source lines', sourceLines(known)),
    part(
      `${id}policies`,
      'Policies',
      why ? summary(trace) : undefined,
      programSection(trace),
      h('div', { class: 'pair' }, ...costCharts(trace.rows, machine)),
      h('section', {}, h('h3', {}, 'All figures'), policyTable(trace.rows, machine.page_size)),
      levelsSection(trace),
      sizesSection(trace),
    ),
    part(`${id}sharing`, 'Sharing', sharingChart(trace.sharing)),
    part(`${id}pages`, 'Pages', pageMapSection(trace, machine)),
    curves.length > 0 ? part(`${id}curves`, 'Curves', h('div', { class: 'pair' }, ...curves)) : undefined,
    trace.perturbation.length > 0 ? part(`${id}order`, 'Order', perturbationSection(trace.perturbation)) : undefined,
    part(`${id}trace`, 'Trace', provenance(trace.trace, machine), cachesSection(trace.trace)),
  )
  return { element, areas }
}

/** Says in the address which area is open, so that it can be passed on. */
function linkTo(area: AreaReport | undefined): void {
  const hash = area === undefined ? '' : `#area=${encodeURIComponent(area.name ?? '')}`
  history.replaceState(null, '', hash || location.pathname + location.search)
}

function draw(root: HTMLElement): void {
  redraw(root)
  redrawMaps(root)
}

function build(report: Report, page: HTMLElement): void {
  const single = report.traces.length === 1
  const contents = new Contents(page)
  const content = h('div', { class: 'content' })
  content.append(header(report))
  if (report.traces.length > 1) content.append(overview(report.traces))
  if (report.means.length > 0) content.append(meansChart(report.means, report.traces.length))
  const panels = report.traces.map((trace, i) => tracePanel(trace, report, single, single ? '' : `t${i + 1}-`))
  const elements = panels.map((panel) => panel.element)
  if (panels.length === 0) content.append(h('p', { class: 'empty' }, 'The report holds no trace.'))
  const names = report.traces.map(({ trace }) => trace.name)
  const list = tabs(names, elements, (panel) => {
    draw(panel)
    contents.list()
  })
  if (panels.length > 1) content.append(list)
  content.append(...elements, part('notes', 'Notes', notes(report))!, part('words', 'Words', glossary())!)
  page.append(contents.element, content)
  contents.list()
  draw(page)
  follow(page)
  explainTerms(page)
  const go = () => goTo(panels, list)
  window.addEventListener('hashchange', go)
  go()
}

/** Follows the address: `#area=NAME` opens an area, `#SECTION` shows the trace that the section is of. */
function goTo(panels: readonly Panel[], list: HTMLElement): void {
  const [, name] = /^#area=(.*)$/s.exec(location.hash) ?? []
  if (name !== undefined) {
    const wanted = decoded(name)
    const fits = (area: AreaReport) => (area.name ?? '') === wanted
    const shown = [...panels].sort((a, b) => Number(a.element.hidden) - Number(b.element.hidden))
    const panel = shown.find((one) => one.areas?.has(fits))
    if (panel) reveal(panels, panel, list)
    panel?.areas?.show(fits)
    return
  }
  const target = document.getElementById(decoded(location.hash.slice(1)))
  const panel = target && panels.find((one) => one.element.contains(target))
  if (panel) reveal(panels, panel, list)
  target?.scrollIntoView()
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function reveal(panels: readonly Panel[], panel: Panel, list: HTMLElement): void {
  if (!panel.element.hidden) return
  list.querySelectorAll<HTMLElement>('[role="tab"]')[panels.indexOf(panel)]?.click()
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
    all(page)
    redraw(page, (chart) => (chart.parentElement?.matches('.pair:has(> :nth-child(2))') ? SHEET.half : SHEET.whole))
    redrawMaps(page, SHEET.half)
  })
  window.addEventListener('afterprint', () => draw(page))
}

function start(): void {
  const page = document.getElementById('page')!
  try {
    const report = parse(document.getElementById('homing-report')!.textContent ?? '')
    performance.mark('homing-read')
    build(report, page)
    performance.mark('homing-built')
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
