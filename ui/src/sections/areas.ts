// The areas of a diagnosis: which data is in the wrong place, and what a row says when it is opened.

import { h, table } from '../dom.ts'
import { bytes, clip, count, digits, integer, percent } from '../format.ts'
import { nodeBar } from '../nodes.ts'
import { Paged, type PagedColumn } from '../paged.ts'
import { inkOn, nodeColour } from '../palette.ts'
import { causeWords, remedyLong, remedyShort, saves } from '../remedies.ts'
import type { AreaReport, MachineInfo, TraceReport, WhyReport } from '../report.ts'
import { avoidable } from '../sources.ts'
import { pagesByArea, strip, type Times } from '../strip.ts'
import { TERMS, type Term, term } from '../terms.ts'
import { areaName, visible } from '../visible.ts'
import { pasteList, pasteOf, SHOWN, travellingLines } from './paste.ts'

/** Letters of a name that a row shows. */
const LETTERS = 90

/** The table of areas. `opened`: told which area is open. */
export function areasTable(
  trace: TraceReport,
  why: WhyReport,
  opened: (area: AreaReport | undefined) => void,
): Paged<AreaReport> {
  const { machine } = why
  const bar = (title: Term, counts: (area: AreaReport) => number[]): PagedColumn<AreaReport> => ({
    title,
    help: TERMS[title],
    value: (area) => nodeOf(counts(area)),
    text: () => '',
    draw: (area) => nodeBar(counts(area), machine, title),
    wide: true,
  })
  const columns: PagedColumn<AreaReport>[] = [
    { title: 'area', value: areaName, text: areaName, draw: (area) => nameCell(area) },
    { title: 'size', value: (area) => area.bytes, text: (area) => bytes(area.bytes), wide: true },
    {
      title: 'avoidable',
      help: TERMS.avoidable,
      value: (area) => area.avoidable_percent,
      text: (area) => percent(area.avoidable_percent),
    },
    bar('accessed by', (area) => area.references_by_node),
    bar('resident on', (area) => area.pages_on_node),
    bar('best on', (area) => area.pages_best_on_node),
    {
      title: 'what to do',
      help: 'the remedy that saves most, if one pays',
      roomy: true,
      value: (area) => remedyShort(area.remedy?.remedy),
      text: (area) => remedyShort(area.remedy?.remedy),
    },
    {
      title: 'saves',
      help: TERMS['saves'],
      value: (area) => area.remedy?.saves,
      text: (area) => (area.remedy ? percent(100 * area.remedy.saves) : '–'),
    },
  ]
  const pages = onceMade(() => byName(trace))
  return new Paged(inOrder(why.areas), columns, {
    caption: 'Areas of data: those with a remedy, then by what of their cost is avoidable',
    name: 'areas',
    search: 'Search areas',
    words: (area) => `${areaName(area)} ${causeWords(area.cause)} ${area.class} ${remedyShort(area.remedy?.remedy)}`,
    detail: (area) => detail(area, why, trace, pages().get(area.name ?? '') ?? []),
    opened,
  })
}

/** Areas that matter first, each part in the order of the report: by falling avoidable cost. */
function inOrder(areas: readonly AreaReport[]): AreaReport[] {
  return [...areas.filter((area) => area.remedy), ...areas.filter((area) => !area.remedy)]
}

function nodeOf(counts: readonly number[]): number {
  return counts.length === 0 ? -1 : counts.indexOf(Math.max(...counts))
}

function nameCell(area: AreaReport): HTMLElement {
  const name = areaName(area)
  const shown = clip(name, LETTERS)
  return h('bdi', { class: 'area-name', title: shown === name ? undefined : clip(name, 2000) }, shown)
}

function onceMade<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}

/** The pages of the map by the name of their area; the empty name has those without one. */
function byName({ page_map: map }: TraceReport): Map<string, number[]> {
  const found = new Map<string, number[]>()
  for (const [area, pages] of pagesByArea(map)) found.set(area < 0 ? '' : (map.areas[area] ?? ''), pages)
  return found
}

/** All that is known of an area. */
function detail(area: AreaReport, why: WhyReport, trace: TraceReport, pages: readonly number[]): HTMLElement {
  const name = areaName(area)
  const link = h('a', { class: 'link', href: `#area=${encodeURIComponent(area.name ?? '')}` }, 'link to this area')
  return h(
    'div',
    {},
    h('p', { class: 'full-name' }, h('bdi', {}, clip(name, 4000)), ' ', link),
    advice(area, why),
    area.remedy && pasteList(area.remedy),
    facts(area),
    pages.length > 0 ? strip(trace.page_map, pages, why.machine, area.pages, timesOf(area, why)) : undefined,
    why.timelines && !area.timeline
      ? h(
          'p',
          { class: 'note' },
          `Who uses it when is not in this report: ${integer(why.timelines.areas_left_out)} areas with least to ` +
            'avoid have no timeline.',
        )
      : undefined,
    byNode(area, why.machine),
    travellingLines(area),
    extras(area),
  )
}

function timesOf({ timeline }: AreaReport, { timelines }: WhyReport): Times | undefined {
  return timeline && timelines ? { area: timeline, all: timelines } : undefined
}

function advice(area: AreaReport, why: WhyReport): HTMLElement {
  const { remedy } = area
  if (!remedy) {
    const text = why.areas.indexOf(area) >= why.areas.length - why.areas_untried && why.areas_untried > 0
    return h(
      'p',
      { class: 'advice' },
      text ? 'No remedy was tried: too little of its cost is avoidable.' : 'No remedy pays.',
    )
  }
  const of = why.gain_is_of
  return h(
    'p',
    { class: 'advice' },
    h('strong', {}, `${causeWords(area.cause)}. `),
    // What can be pasted says it better.
    ...(pasteOf(remedy).length > 0 ? [] : code(remedyLong(remedy.remedy))),
    ` This ${saves(remedy.saves)} of the ${of}.`,
  )
}

function code(text: string): (Node | string)[] {
  return text.split('`').map((part, i) => (i % 2 === 1 ? h('code', {}, part) : part))
}

function facts(area: AreaReport): HTMLElement {
  const classes = area.sharing
    .filter((part) => part.references > 0)
    .sort((a, b) => b.references - a.references)
    .flatMap((part, i) => [
      i > 0 ? ', ' : '',
      term(part.class),
      ` ${percent((100 * part.references) / Math.max(area.references, 1))}`,
    ])
  const pairs: [Node | string, (Node | string)[]][] = [
    ['size', [`${bytes(area.bytes)}, ${integer(area.pages)} page${area.pages === 1 ? '' : 's'}`]],
    [
      'references',
      [`${count(area.references)}, ${percent((100 * area.writes) / Math.max(area.references, 1))} writes`],
    ],
    ['sharing', classes.length > 0 ? classes : [term(area.class)]],
    [term('avoidable'), [`${count(avoidable(area))}, ${percent(area.avoidable_percent)} of all`]],
    ['cost now', [count(area.cost.now)]],
    ['each page at its best node', [count(area.cost.best_static)]],
    ['spread over the nodes', [count(area.cost.spread)]],
    ['bound', [count(area.cost.bound)]],
  ]
  return h('dl', { class: 'facts' }, ...pairs.map(([dt, dd]) => h('div', {}, h('dt', {}, dt), h('dd', {}, ...dd))))
}

/** Who uses, made, holds and should hold it, node by node. */
function byNode(area: AreaReport, machine: MachineInfo): HTMLElement {
  const columns = [area.references_by_node, area.pages_made_by_node, area.pages_on_node, area.pages_best_on_node]
  const nodes = area.references_by_node
    .map((_, node) => node)
    .filter((node) => columns.some((one) => (one[node] ?? 0) > 0))
  const share = (counts: readonly number[]) => {
    const all = counts.reduce((sum, one) => sum + one, 0)
    return (node: number) => `${count(counts[node] ?? 0)} (${percent((100 * (counts[node] ?? 0)) / Math.max(all, 1))})`
  }
  const column = (title: string, help: string, counts: readonly number[]) => ({
    title,
    help,
    value: (node: number) => counts[node],
    text: share(counts),
  })
  const element = table(
    nodes,
    [
      { title: 'node', value: (node) => `node ${node}`, text: (node) => `node ${node}` },
      column('accessed by', TERMS['accessed by'], area.references_by_node),
      column('first touched by', TERMS['first touched by'], area.pages_made_by_node),
      column('resident on', TERMS['resident on'], area.pages_on_node),
      column('best on', TERMS['best on'], area.pages_best_on_node),
    ],
    { caption: 'By node; those that are not listed have none of it' },
  )
  element.querySelectorAll<HTMLElement>('tbody th').forEach((cell, row) => {
    const colour = nodeColour(nodes[row]!, machine.memories, machine.global_node)
    cell.prepend(h('span', { class: 'key', style: `background:${colour};color:${inkOn(colour)}` }))
  })
  return element
}

/** The fields that this page knows how to show. */
const KNOWN = new Set<string>([
  'name',
  'pages',
  'bytes',
  'references',
  'writes',
  'references_by_node',
  'pages_made_by_node',
  'pages_on_node',
  'pages_best_on_node',
  'class',
  'sharing',
  'cost',
  'avoidable_percent',
  'cause',
  'remedy',
  'areas_folded',
  'timeline',
  ...SHOWN,
])

/** Fields of later versions of the program, as they are. */
export function extras(area: AreaReport): HTMLElement | undefined {
  const more = Object.entries(area).filter(([name, value]) => !KNOWN.has(name) && value !== null && value !== undefined)
  if (more.length === 0) return undefined
  const items = more.map(([name, value]) =>
    h('div', {}, h('dt', {}, visible(name).replaceAll('_', ' ')), h('dd', {}, plain(value))),
  )
  return h('dl', { class: 'facts extras' }, ...items)
}

function plain(value: unknown): Node | string {
  if (typeof value === 'number') return digits(value, 6)
  if (typeof value === 'string') return clip(visible(value), 2000)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string'))
    return h('ul', {}, ...value.slice(0, 40).map((item) => h('li', {}, clip(visible(item as string), 500))))
  return clip(visible(JSON.stringify(value)), 2000)
}
