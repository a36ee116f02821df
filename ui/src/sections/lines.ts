// Source files with what their lines' data costs, as Cachegrind annotates a source.

import { csv, csvButton } from '../csv.ts'
import { h } from '../dom.ts'
import { bytes, clip, count, percent } from '../format.ts'
import { causeWords, remedyShort } from '../remedies.ts'
import type { AreaReport, WhyReport } from '../report.ts'
import { type File, type Line, sources } from '../sources.ts'
import { term } from '../terms.ts'
import { areaName, visible } from '../visible.ts'

/** Lines of a file that are shown, those with most avoidable cost; and files. */
const [LINES, FILES] = [40, 30]
/** Open from the start. */
const OPEN = 3

/** Files, the most avoidable cost first; undefined where no area is named after a line. */
export function sourceLines(why: WhyReport): HTMLElement | undefined {
  const { files, elsewhere } = sources(why.areas)
  if (files.length === 0) return undefined
  const all = Math.max(
    why.areas.reduce((sum, area) => sum + Math.max(area.cost.now - area.cost.bound, 0), 0),
    1e-9,
  )
  const matter = files.filter((file) => file.avoidable > 0).slice(0, FILES)
  const shown = matter.map((file, i) => oneFile(file, all, i < OPEN))
  const rest = files.length - shown.length
  return h(
    'div',
    { 'data-chart': 'lines' },
    h(
      'p',
      { class: 'note' },
      'Data by the line that allocates it, with its ',
      term('avoidable'),
      ' cost. What several callers allocate through one line counts at the callers. ',
      elsewhere.length > 0 ? `${count(elsewhere.length)} areas (variables, stacks, files) have no line. ` : '',
      csvButton('source lines', () => asCsv(files)),
    ),
    ...shown,
    rest > 0
      ? h(
          'p',
          { class: 'note' },
          `${count(rest)} more files, with less or nothing that can be avoided, are in the CSV.`,
        )
      : undefined,
  )
}

function oneFile(file: File, all: number, open: boolean): HTMLElement {
  const most = [...file.lines].sort((a, b) => b.avoidable - a.avoidable).slice(0, LINES)
  const lines = file.lines.filter((line) => most.includes(line))
  const share = percent((100 * file.avoidable) / all)
  const element = h('details', { class: 'file', open })
  element.append(h('summary', {}, h('code', {}, clip(visible(file.file), 120)), ` ${share} of what can be avoided`))
  const fill = () => {
    if (element.querySelector('table')) return
    element.append(linesTable(file, lines, all))
    const rest = file.lines.length - lines.length
    if (rest > 0) element.append(h('p', { class: 'note' }, `${count(rest)} more lines are in the CSV.`))
  }
  element.addEventListener('toggle', fill)
  if (open) fill()
  return element
}

function linesTable(file: File, lines: readonly Line[], all: number): HTMLElement {
  const head = ['line', 'avoidable', 'allocates', 'what to do'].map((title) => h('th', { scope: 'col' }, title))
  const row = (line: Line) => {
    const share = (100 * line.avoidable) / all
    return h(
      'tr',
      {},
      h('th', { scope: 'row', class: 'number' }, String(line.line)),
      h(
        'td',
        { class: 'heat', style: `--heat:${share.toFixed(1)}%`, title: `${count(line.avoidable)} local references` },
        percent(share),
      ),
      h('td', {}, h('code', {}, clip(visible(line.functions.join(', ')), 60)), ` ${bytes(line.bytes)}`),
      h('td', {}, ...toDo(line)),
    )
  }
  const caption = `Lines of ${clip(visible(file.file), 120)}`
  return h(
    'div',
    { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': caption },
    h(
      'table',
      {},
      h('caption', { class: 'hidden' }, caption),
      h('thead', {}, h('tr', {}, ...head)),
      h('tbody', {}, ...lines.map(row)),
    ),
  )
}

/** The remedies of a line's areas, each with a link to the first area that has it. */
function toDo(line: Line): (Node | string)[] {
  const found = new Map<string, AreaReport>()
  for (const area of line.areas)
    if (area.remedy && !found.has(remedyShort(area.remedy.remedy))) found.set(remedyShort(area.remedy.remedy), area)
  if (found.size === 0) return ['–']
  return [...found].flatMap(([words, area], i) => [
    i > 0 ? ', ' : '',
    h('a', { href: `#area=${encodeURIComponent(area.name ?? '')}`, title: causeWords(area.cause) }, words),
  ])
}

function asCsv(files: readonly File[]): string {
  const head = ['file', 'line', 'functions', 'areas', 'avoidable cost', 'cost', 'references', 'bytes']
  const rows = files.flatMap(({ file, lines }) =>
    lines.map((line) => [
      file,
      line.line,
      line.functions.join(', '),
      line.areas.map(areaName).join('; '),
      line.avoidable,
      line.cost,
      line.references,
      line.bytes,
    ]),
  )
  return csv([head, ...rows])
}
