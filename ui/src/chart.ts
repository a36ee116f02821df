// A chart with its caption, redrawn when the page's width changes, and the same numbers as a table behind it.

import { freshId, h } from './dom.ts'
import { clip } from './format.ts'
import { inSight } from './sight.ts'

/** What a chart shows and says. */
export interface Chart {
  title: string
  /** What to see in it; one or two sentences. */
  note?: string
  /** Said by a screen reader instead of the drawing. */
  label: string
  /** Stable name for links and tests. */
  name: string
  draw: (width: number) => Element
  /** Controls and legends that stand between the caption and the drawing. */
  controls?: HTMLElement[]
  table: HTMLElement
}

const drawn = new Map<HTMLElement, (width?: number) => void>()

/** The figure of a chart. It is drawn once it stands in the page and comes to sight. */
export function figure(chart: Chart): HTMLElement {
  const id = freshId(chart.name)
  const plot = h('div', { class: 'plot', role: 'img', 'aria-label': chart.label })
  const element = h(
    'figure',
    { 'data-chart': chart.name, 'aria-labelledby': id },
    h('figcaption', {}, h('h3', { id }, chart.title), chart.note ? h('p', {}, chart.note) : undefined),
    ...(chart.controls ?? []),
    plot,
    h('details', {}, h('summary', {}, 'The numbers as a table'), chart.table),
  )
  drawn.set(element, (fixed) => {
    plot.replaceChildren(chart.draw(Math.max(fixed ?? plot.clientWidth, 240)))
  })
  return element
}

/** Draws a chart anew after its controls changed. */
export function redrawOne(element: HTMLElement): void {
  drawn.get(element)?.()
}

/** Draws the charts inside an element: as they come to sight, for their width then, or all for a fixed one each. */
export function redraw(root: HTMLElement, width?: (chart: HTMLElement) => number): void {
  for (const [element, draw] of drawn) {
    if (!due(root, element, width !== undefined)) continue
    if (width) draw(width(element))
    else inSight(element, draw)
  }
}

/** Whether a figure is to be drawn: hidden ones wait until they come to sight, or go to paper. */
export function due(root: HTMLElement, element: HTMLElement, onPaper: boolean): boolean {
  return root.contains(element) && (onPaper || element.closest('[hidden]') === null)
}

/** Bars that a chart draws while it is folded, at least. */
const FOLD = 3

/** The items that a chart draws while it is folded: the first ones and those that `always` are. */
export function folded<T>(items: readonly T[], always: (item: T) => boolean): T[] {
  const kept = new Set(items.filter(always))
  for (const item of items) if (kept.size < FOLD) kept.add(item)
  return items.filter((item) => kept.has(item))
}

/** A list of bars that may be folded, and the button that unfolds it. */
export class Fold<T> {
  /** Empty where everything is shown from the start. */
  readonly controls: HTMLElement[] = []
  private open: boolean

  constructor(
    readonly all: readonly T[],
    private readonly always: (item: T) => boolean,
  ) {
    const few = folded(all, always).length
    this.open = few === all.length
    if (this.open) return
    const words = (open: boolean) =>
      open ? `Show ${few} of ${all.length} policies` : `Show all ${all.length} policies`
    const button = h('button', { type: 'button', class: 'unfold', 'aria-pressed': 'false' }, words(false))
    button.addEventListener('click', () => {
      this.open = !this.open
      button.textContent = words(this.open)
      button.setAttribute('aria-pressed', String(this.open))
      const element = button.closest('figure')
      if (element) redrawOne(element)
    })
    this.controls.push(button)
  }

  get shown(): readonly T[] {
    return this.open ? this.all : folded(this.all, this.always)
  }
}

/** A legend of coloured keys. */
export function legend(keys: readonly { label: string; colour: string }[]): HTMLElement {
  return h(
    'ul',
    { class: 'legend' },
    ...keys.map(({ label, colour }) => h('li', {}, h('span', { class: 'key', style: `background:${colour}` }), label)),
  )
}

/** The left margin that holds these names, in a share of the width, and what shortens a name to fit into it. */
export function nameMargin(
  names: readonly string[],
  width: number,
  share = 0.38,
): { margin: number; fit: (name: string) => string } {
  const room = Math.floor(width * share) - 14
  const widest = Math.max(30, ...names.map(textWidth))
  const fit = (name: string) => {
    let letters = name.length
    while (letters > 4 && textWidth(clip(name, letters)) > room) letters -= 1
    return clip(name, letters)
  }
  return { margin: Math.ceil(Math.min(widest, room)) + 14, fit }
}

let pen: CanvasRenderingContext2D | undefined
/** Pixels of a text in the charts' font. */
function textWidth(text: string): number {
  if (!pen) {
    pen = document.createElement('canvas').getContext('2d')!
    pen.font = `13px ${getComputedStyle(document.documentElement).fontFamily}`
  }
  return pen.measureText(text).width
}
