// The page map: one cell a page, colour = node; where first touch puts each page beside where it ends.

import { due } from '../chart.ts'
import { inSight } from '../sight.ts'
import { freshId, h, table } from '../dom.ts'
import { bytes, count, integer, percent } from '../format.ts'
import { type Cell, cellAt, corner, type Layout, layout, pagesPerNode, step } from '../pagemap-layout.ts'
import { paintCells } from '../pagemap-paint.ts'
import { inkOn, nodeColour } from '../palette.ts'
import type { MachineInfo, PageMap, TraceReport } from '../report.ts'
import { visible } from '../visible.ts'

/** A placement that the map can show. */
interface Placement {
  name: string
  homes: number[]
}

/** One of the two canvases. */
interface Side {
  element: HTMLElement
  canvas: HTMLCanvasElement
  labels: HTMLElement
  cursor: HTMLElement
  placement: () => Placement
}

/** State that both sides share. */
interface View {
  map: PageMap
  trace: TraceReport
  machine: MachineInfo
  layout: Layout
  /** The page under the mouse or the keyboard. */
  at: Cell | undefined
  /** The node that the legend singles out. */
  only: number | undefined
  sides: Side[]
  said: HTMLElement
  tip: HTMLElement
}

/** The placements that a report carries beside the initial one. */
export function placements(map: PageMap): Placement[] {
  const all: Placement[] = []
  if (map.policy && map.last.length > 0) all.push({ name: map.policy, homes: map.last })
  if (map.optimal.length > 0) all.push({ name: 'the optimum', homes: map.optimal })
  if (map.most_frequent.length > 0) all.push({ name: 'most frequent user', homes: map.most_frequent })
  return all
}

/** The name of a node: its number, or "global". */
export function nodeName(node: number, machine: MachineInfo): string {
  return node === machine.global_node ? 'global memory' : `node ${node}`
}

/** The section of the page map. */
export function pageMapSection(trace: TraceReport, machine: MachineInfo): HTMLElement {
  const map = trace.page_map
  const id = freshId('page-map')
  const element = h('figure', { 'data-chart': 'page-map', 'aria-labelledby': id })
  const cut =
    map.shown < map.pages
      ? ` Shown are the ${count(map.shown)} pages with most references, of ${count(map.pages)}.`
      : ''
  const note =
    `One cell is one page of ${bytes(machine.page_size)}, in order of address; its colour is the node ` +
    `that holds it.${cut} Point at a page, or move with the arrow keys, for its address and users.`
  element.append(h('figcaption', {}, h('h3', { id }, 'Page map'), h('p', {}, note)))
  if (map.vaddr.length === 0) {
    element.append(h('p', { class: 'empty' }, 'The trace touches no page.'))
    return element
  }
  const finals = placements(map)
  let chosen = finals[0] ?? { name: 'first touch', homes: map.initial }
  const view: View = {
    map,
    trace,
    machine,
    at: undefined,
    only: undefined,
    sides: [],
    layout: NOTHING,
    said: h('p', { class: 'hidden', 'aria-live': 'polite' }),
    tip: h('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' }),
  }
  view.sides = [
    side(view, 'first', () => ({ name: 'first touch', homes: map.initial })),
    side(view, 'final', () => chosen),
  ]
  const [left, right] = view.sides.map((one) => one.element.querySelector('.map-scroll')!)
  for (const [from, to] of [
    [left!, right!],
    [right!, left!],
  ] as const) {
    from.addEventListener('scroll', () => to.scrollTo(from.scrollLeft, from.scrollTop))
  }
  const numbers = h('details', {}, h('summary', {}, 'The numbers as a table'))
  numbers.addEventListener('toggle', () => numbers.append(countTable(view, finals)), { once: true })
  const change = (placement: Placement) => {
    chosen = placement
    for (const one of view.sides) paint(view, one)
  }
  element.append(
    switcher(finals, change),
    nodeLegend(view),
    h('div', { class: 'maps' }, ...view.sides.map((one) => one.element)),
    view.tip,
    view.said,
    numbers,
  )
  resizers.set(element, (width) => fit(view, width))
  return element
}

/** A map that is not laid out yet. */
const NOTHING: Layout = { blocks: [], columns: 1, cell: 2, width: 0, height: 1 }

const resizers = new Map<HTMLElement, (width?: number) => void>()

/** Lays out and paints the maps inside an element anew, as `redraw` does with charts. */
export function redrawMaps(root: HTMLElement, width?: number): void {
  for (const [element, draw] of resizers) {
    if (!due(root, element, width !== undefined)) continue
    if (width === undefined) inSight(element, draw)
    else draw(width)
  }
}

function side(view: View, name: string, placement: () => Placement): Side {
  const canvas = h('canvas', { tabindex: 0, role: 'img', 'data-map': name })
  const labels = h('div', { class: 'labels', 'aria-hidden': 'true' })
  const cursor = h('div', { class: 'cursor', hidden: true })
  const sheet = h('div', { class: 'sheet' }, canvas, labels, cursor)
  const result: Side = {
    element: h('section', { class: 'map' }, h('h4'), h('div', { class: 'map-scroll' }, sheet)),
    canvas,
    labels,
    cursor,
    placement,
  }
  canvas.addEventListener('pointermove', (event) =>
    point(view, result, cellAt(view.layout, event.offsetX, event.offsetY)),
  )
  canvas.addEventListener('pointerleave', () => point(view, result, undefined))
  canvas.addEventListener('blur', () => point(view, result, undefined))
  canvas.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return point(view, result, undefined)
    const start = view.at ?? { block: 0, index: 0 }
    const next = view.at ? step(view.layout, start, event.key) : event.key.startsWith('Arrow') ? start : undefined
    if (!next || (view.at && next === start)) return
    event.preventDefault()
    point(view, result, next, true)
  })
  return result
}

/** Lays the map out for the width there is now, or a fixed one. */
function fit(view: View, fixed?: number): void {
  const width = fixed ?? view.sides[0]!.element.clientWidth
  view.layout = layout(view.map, view.machine.page_size, Math.max(Math.min(width, 1200) - 14, 120))
  for (const one of view.sides) paint(view, one)
}

function paint(view: View, one: Side): void {
  const { layout: map, machine } = view
  const { name, homes } = one.placement()
  one.element.querySelector('h4')!.textContent = one === view.sides[0] ? 'At first touch' : `At the end: ${name}`
  paintCells(one.canvas, { map, homes, machine, only: view.only })
  one.labels.replaceChildren(
    ...map.blocks.map((block) =>
      h('span', { style: `top:${block.top - 19}px;width:${map.width}px`, title: block.label }, block.label),
    ),
  )
  const per = pagesPerNode(homes, machine.memories)
  one.canvas.dataset.cells = String(homes.length)
  one.canvas.setAttribute(
    'aria-label',
    `Page map, ${name}: ${per.map((n, node) => `${nodeName(node, machine)} ${integer(n)}`).join(', ')} pages. ` +
      'Arrow keys move from page to page.',
  )
}

/** Points at a cell on both sides, beside a tip at the side that has the mouse or the keyboard. */
function point(view: View, from: Side, at: Cell | undefined, say = false): void {
  if (at?.block === view.at?.block && at?.index === view.at?.index) return
  view.at = at
  const block = at && view.layout.blocks[at.block]
  for (const one of view.sides) one.cursor.hidden = !block
  view.tip.hidden = !block
  if (!at || !block) return
  const { x, y } = corner(view.layout, block, at.index)
  for (const one of view.sides) {
    const side = view.layout.cell + 3
    one.cursor.style.cssText = `left:${x - 2}px;top:${y - 2}px;width:${side}px;height:${side}px`
  }
  if (say) from.cursor.scrollIntoView({ block: 'nearest' })
  const lines = describe(view, block.pages[at.index]!)
  view.tip.replaceChildren(h('strong', {}, lines[0]!), ...lines.slice(1).map((line) => h('div', {}, line)))
  if (say) view.said.textContent = lines.join('; ')
  placeTip(view.tip, from, x, y + view.layout.cell)
}

function placeTip(tip: HTMLElement, from: Side, x: number, y: number): void {
  const sheet = from.canvas.getBoundingClientRect()
  const size = tip.getBoundingClientRect()
  const left = Math.min(Math.max(8, sheet.left + x), document.documentElement.clientWidth - size.width - 8)
  const below = sheet.top + y + 10
  const top = below + size.height > window.innerHeight ? sheet.top + y - size.height - 24 : below
  tip.style.left = `${left}px`
  tip.style.top = `${Math.max(4, top)}px`
}

/** What is known of a page, line by line. */
export function describe(view: Pick<View, 'map' | 'trace' | 'machine'>, page: number): string[] {
  const { map, trace, machine } = view
  const named = map.areas?.[map.area?.[page] ?? -1]
  const area = named === undefined ? undefined : visible(named)
  const name = (node: number | undefined) => (node === undefined ? '?' : nodeName(node, machine))
  const lines = [`${map.vaddr[page]}${area ? `, ${area}` : ''}`]
  const sharing = trace.sharing[map.class[page] ?? -1]?.class
  lines.push(`${count(map.references[page] ?? 0)} references${sharing ? `, ${sharing}` : ''}`)
  lines.push(`first touch: ${name(map.initial[page])}`)
  for (const placement of placements(map)) lines.push(`${placement.name}: ${name(placement.homes[page])}`)
  const users = map.by_node?.[page]
  const total = users?.reduce((sum, n) => sum + n, 0) ?? 0
  users
    ?.map((n, node) => ({ n, node }))
    .filter(({ n }) => n > 0)
    .sort((a, b) => b.n - a.n)
    .slice(0, 8)
    .forEach(({ n, node }) => lines.push(`accessed by ${name(node)}: ${percent((100 * n) / total)} (${count(n)})`))
  return lines
}

function switcher(finals: readonly Placement[], change: (placement: Placement) => void): HTMLElement {
  const group = freshId('placement')
  const box = h('fieldset', { class: 'switch' }, h('legend', {}, 'Placement at the end'))
  finals.forEach((placement, i) => {
    const input = h('input', { type: 'radio', name: group, value: placement.name, checked: i === 0 })
    input.addEventListener('change', () => change(placement))
    box.append(h('label', {}, input, placement.name))
  })
  return box
}

function nodeLegend(view: View): HTMLElement {
  const { machine } = view
  const buttons: HTMLButtonElement[] = []
  for (let node = 0; node < machine.memories; node += 1) {
    const colour = nodeColour(node, machine.memories, machine.global_node)
    const style = `background:${colour};color:${inkOn(colour)}`
    const text = node === machine.global_node ? 'global' : String(node)
    const button = h(
      'button',
      { type: 'button', style, 'aria-pressed': 'false', title: `show only ${nodeName(node, machine)}` },
      text,
    )
    button.addEventListener('click', () => {
      view.only = view.only === node ? undefined : node
      buttons.forEach((other, i) => other.setAttribute('aria-pressed', String(view.only === i)))
      for (const one of view.sides) paint(view, one)
    })
    buttons.push(button)
  }
  return h(
    'div',
    { class: 'nodes', role: 'group', 'aria-label': 'Nodes; press one to single it out' },
    h('span', {}, 'Node'),
    ...buttons,
  )
}

function countTable(view: View, finals: readonly Placement[]): HTMLElement {
  const { map, machine } = view
  const columns = [{ name: 'first touch', homes: map.initial }, ...finals]
  const per = columns.map(({ homes }) => pagesPerNode(homes, machine.memories))
  const nodes = Array.from({ length: machine.memories }, (_, node) => node)
  const elsewhere = finals
    .map(({ name, homes }) => `${name}: ${count(homes.filter((home, page) => home !== map.initial[page]).length)}`)
    .join('; ')
  const moved = elsewhere === '' ? [] : [`Pages that end elsewhere than first touch put them: ${elsewhere}`]
  return table(
    nodes,
    [
      { title: 'Node', value: (node) => node, text: (node) => nodeName(node, machine) },
      ...columns.map(({ name }, i) => ({
        title: name,
        value: (node: number) => per[i]![node],
        text: (node: number) => integer(per[i]![node]!),
      })),
    ],
    {
      caption: ['Pages on each node', ...moved].join('. '),
    },
  )
}
