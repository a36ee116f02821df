// A chart with its caption, redrawn when the page's width changes, and the same numbers as a table behind it.

import { freshId, h } from './dom.ts'
import { clip } from './format.ts'

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

/** The figure of a chart. It is drawn by `redraw` once it stands in the page. */
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
    // A hidden panel has no width of its own; the page's is the same.
    const width = fixed ?? (plot.clientWidth || document.getElementById('page')?.clientWidth || 640)
    plot.replaceChildren(chart.draw(Math.max(width, 240)))
  })
  return element
}

/** Draws a chart anew after its controls changed. */
export function redrawOne(element: HTMLElement): void {
  drawn.get(element)?.()
}

/** Draws all charts inside an element, for their width now or a fixed one. */
export function redraw(root: HTMLElement, width?: number): void {
  for (const [element, draw] of drawn) if (root.contains(element)) draw(width)
}

/** A legend of coloured keys. */
export function legend(keys: readonly { label: string; colour: string }[]): HTMLElement {
  return h(
    'ul',
    { class: 'legend' },
    ...keys.map(({ label, colour }) => h('li', {}, h('span', { class: 'key', style: `background:${colour}` }), label)),
  )
}

/** The left margin that holds these names, and what shortens a name to fit into it. */
export function nameMargin(names: readonly string[], width: number): { margin: number; fit: (name: string) => string } {
  const room = Math.floor(width * 0.38) - 14
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
