// Pages of an area as strips of cells, one above the other: who uses a page most, where it is, where it is best. Only
// the cells in sight are drawn, so that a strip may be of a million pages.

import { freshId, h } from './dom.ts'
import { count, integer } from './format.ts'
import { nodeColour } from './palette.ts'
import type { AreaTimeline, MachineInfo, PageMap, Timelines } from './report.ts'
import { inSight } from './sight.ts'
import { type Term, term } from './terms.ts'
import { cellsOf, folded, label as intervalLabel, unpack, type User } from './timeline.ts'

/** Pixels from one cell to the next, and of a strip's height. */
const [LEAST, MOST, HEIGHT, GAP] = [8, 22, 22, 4]

/** The pages of each area of a map, by the area's index; -1 has those without a name. */
export function pagesByArea(map: PageMap): Map<number, number[]> {
  const found = new Map<number, number[]>()
  for (let page = 0; page < map.vaddr.length; page += 1) {
    const area = map.area[page] ?? -1
    const pages = found.get(area)
    if (pages) pages.push(page)
    else found.set(area, [page])
  }
  return found
}

/** Width of a cell when so many pages are to stand in a width. */
export function cellWidth(pages: number, width: number): number {
  return Math.max(LEAST, Math.min(MOST, Math.floor(width / Math.max(pages, 1))))
}

/** Who uses the pages of an area when, and what holds for all areas. */
export interface Times {
  area: AreaTimeline
  all: Timelines
}

/**
 * The strips of some pages of a map. `all`: pages that the area has, of which the map may hold fewer. `times`: for a
 * slider that shows who uses the pages in an interval.
 */
export function strip(
  map: PageMap,
  pages: readonly number[],
  machine: MachineInfo,
  all: number,
  times?: Times,
): HTMLElement {
  const rows: [Term, readonly number[]][] = [
    ['accessed by', map.most_frequent],
    ['resident on', map.initial],
    ['best on', map.optimal],
  ]
  const canvas = h('canvas', { role: 'img', tabindex: 0, 'aria-label': label(rows, pages) })
  const sheet = h('div', { class: 'strip-sheet' }, canvas)
  const scroll = h('div', { class: 'strip-scroll' }, sheet)
  const said = h(
    'p',
    { class: 'strip-said', id: freshId('page'), 'aria-live': 'polite' },
    'Point at a page, or use the arrow keys.',
  )
  const names = h('div', { class: 'strip-names' }, ...rows.map(([name]) => h('span', {}, term(name))))
  const cut =
    pages.length < all
      ? h(
          'p',
          { class: 'note' },
          `The page map holds ${count(pages.length)} of these ${count(all)} pages, those with most references.`,
        )
      : undefined
  const view = new View(canvas, sheet, scroll, said, rows, { map, pages, machine })
  inSight(scroll, () => view.draw())
  return h(
    'div',
    { class: 'strip', 'data-cells': pages.length },
    cut,
    times && slider(times, map, pages, view),
    h('div', { class: 'strip-rows' }, names, scroll),
    said,
  )
}

/** Chooses the interval that a strip shows. */
function slider(times: Times, map: PageMap, pages: readonly number[], view: View): HTMLElement {
  const { area, all } = times
  const cells = cellsOf(area, map, pages)
  const id = freshId('interval')
  const said = h('output', { for: id }, intervalLabel(0, all))
  const attributes = { type: 'range', id, min: 0, max: all.intervals, step: 1, value: 0 }
  const input = h('input', { ...attributes, 'aria-valuetext': intervalLabel(0, all) })
  const show = (at: number) => {
    const text = intervalLabel(at, all)
    said.textContent = text
    input.setAttribute('aria-valuetext', text)
    const row = at === 0 ? undefined : unpack(area.users[at - 1] ?? '', area.cells.length)
    view.show(row && cells.map((cell) => row[cell]))
  }
  input.addEventListener('input', () => show(Number(input.value)))
  // On paper nothing can be chosen: it has the whole run.
  window.addEventListener('beforeprint', () => show(0))
  window.addEventListener('afterprint', () => show(Number(input.value)))
  const note = folded(area)
  return h(
    'div',
    { class: 'strip-time' },
    h('label', { for: id }, 'when'),
    input,
    said,
    h(
      'p',
      { class: 'note' },
      'A notch: other nodes use the page too. Empty: nobody uses it in the interval. ',
      note,
    ),
  )
}

function label(rows: readonly [string, readonly number[]][], pages: readonly number[]): string {
  const moved = pages.filter((page) => rows[1]![1][page] !== rows[2]![1][page]).length
  return (
    `${integer(pages.length)} pages in order of address; ${integer(moved)} are on another node than is best. ` +
    'Arrow keys move from page to page.'
  )
}

class View {
  private cell = LEAST
  private at: number | undefined
  private users: readonly (User | undefined)[] | undefined

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly sheet: HTMLElement,
    private readonly scroll: HTMLElement,
    private readonly said: HTMLElement,
    private readonly rows: readonly [string, readonly number[]][],
    private readonly data: { map: PageMap; pages: readonly number[]; machine: MachineInfo },
  ) {
    let due = 0
    const soon = () => {
      cancelAnimationFrame(due)
      due = requestAnimationFrame(() => this.draw())
    }
    scroll.addEventListener('scroll', soon, { passive: true })
    new ResizeObserver(soon).observe(scroll)
    canvas.addEventListener('pointermove', (event) => this.point(this.under(event.offsetX)))
    canvas.addEventListener('keydown', (event) => this.key(event))
  }

  private under(x: number): number {
    return Math.floor((this.scroll.scrollLeft + x) / this.cell)
  }

  private key(event: KeyboardEvent): void {
    const last = this.data.pages.length - 1
    const at = this.at ?? -1
    const next = { ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), Home: 0, End: last }[event.key]
    if (next === undefined) return
    event.preventDefault()
    const [from, to] = [this.scroll.scrollLeft, this.scroll.scrollLeft + this.scroll.clientWidth]
    if (next * this.cell < from || (next + 1) * this.cell > to)
      this.scroll.scrollLeft = next * this.cell - this.scroll.clientWidth / 2
    this.point(next)
  }

  private point(at: number): void {
    const page = this.data.pages[at]
    if (page === undefined || at === this.at) return
    this.at = at
    this.tell(page)
    this.draw()
  }

  private tell(page: number): void {
    const { map } = this.data
    const user = this.users?.[this.at!]
    const others = user?.several ? ' and others' : ''
    const now = !user || user.node < 0 ? 'accessed by nobody' : `accessed by node ${user.node}${others}`
    const homes = this.rows.map(([name, homes], row) =>
      row === 0 && this.users ? `${now} in this interval` : `${name} node ${homes[page] ?? '?'}`,
    )
    const all = this.users ? ' in the whole run' : ''
    const references = `${count(map.references[page] ?? 0)} references${all}`
    this.said.textContent = `${map.vaddr[page]}: ${homes.join(', ')}; ${references}.`
  }

  /** Shows who uses each page in an interval; without, in the whole run. */
  show(users: readonly (User | undefined)[] | undefined): void {
    this.users = users
    if (this.at !== undefined) this.tell(this.data.pages[this.at]!)
    this.draw()
  }

  /** Draws the cells in sight. */
  draw(): void {
    const width = this.scroll.clientWidth
    if (width === 0) return
    const { pages, machine } = this.data
    this.cell = cellWidth(pages.length, width)
    this.sheet.style.width = `${pages.length * this.cell}px`
    const shown = Math.min(width, pages.length * this.cell)
    const scale = Math.min(window.devicePixelRatio || 1, 3)
    const height = this.rows.length * (HEIGHT + GAP)
    this.canvas.width = Math.round(shown * scale)
    this.canvas.height = Math.round(height * scale)
    this.canvas.style.width = `${shown}px`
    this.canvas.style.height = `${height}px`
    const pen = this.canvas.getContext('2d')!
    pen.scale(scale, scale)
    const from = Math.floor(this.scroll.scrollLeft / this.cell)
    const to = Math.min(pages.length, Math.ceil((this.scroll.scrollLeft + width) / this.cell))
    this.rows.forEach(([, homes], row) => {
      for (let at = from; at < to; at += 1) {
        const user = row === 0 ? this.users?.[at] : undefined
        const [left, top] = [at * this.cell - this.scroll.scrollLeft, row * (HEIGHT + GAP)]
        if (row === 0 && this.users && (!user || user.node < 0)) {
          pen.fillStyle = getComputedStyle(this.canvas).getPropertyValue('--line')
          pen.fillRect(left, top + HEIGHT - 2, this.cell - 1, 2)
          continue
        }
        pen.fillStyle = nodeColour(user?.node ?? homes[pages[at]!]!, machine.memories, machine.global_node)
        pen.fillRect(left, top, this.cell - 1, HEIGHT)
        if (user?.several) pen.clearRect(left, top, Math.floor(this.cell / 2), HEIGHT / 3)
      }
    })
    if (this.at === undefined) return
    pen.strokeStyle = getComputedStyle(this.canvas).color
    pen.lineWidth = 2
    pen.strokeRect(this.at * this.cell - this.scroll.scrollLeft, 1, this.cell - 1, height - GAP - 2)
  }
}
