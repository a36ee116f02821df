// Pages of an area as strips of cells, one above the other: who uses a page most, where it is, where it is best. Only
// the cells in sight are drawn, so that a strip may be of a million pages.

import { freshId, h } from './dom.ts'
import { count, integer } from './format.ts'
import { nodeColour } from './palette.ts'
import type { MachineInfo, PageMap } from './report.ts'
import { inSight } from './sight.ts'
import { type Term, term } from './terms.ts'

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

/** The strips of some pages of a map. `all`: pages that the area has, of which the map may hold fewer. */
export function strip(map: PageMap, pages: readonly number[], machine: MachineInfo, all: number): HTMLElement {
  const rows: [Term, readonly number[]][] = [
    ['used by', map.most_frequent],
    ['is on', map.initial],
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
    h('div', { class: 'strip-rows' }, names, scroll),
    said,
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
    const { map } = this.data
    const homes = this.rows.map(([name, homes]) => `${name} node ${homes[page] ?? '?'}`).join(', ')
    this.said.textContent = `${map.vaddr[page]}: ${homes}; ${count(map.references[page] ?? 0)} references.`
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
        pen.fillStyle = nodeColour(homes[pages[at]!]!, machine.memories, machine.global_node)
        pen.fillRect(at * this.cell - this.scroll.scrollLeft, row * (HEIGHT + GAP), this.cell - 1, HEIGHT)
      }
    })
    if (this.at === undefined) return
    pen.strokeStyle = getComputedStyle(this.canvas).color
    pen.lineWidth = 2
    pen.strokeRect(this.at * this.cell - this.scroll.scrollLeft, 1, this.cell - 1, height - GAP - 2)
  }
}
