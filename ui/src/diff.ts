// The page of `homing diff`: two diagnoses beside each other.

import { h, table } from './dom.ts'
import { bytes, clip, count, digits, integer, percent, seconds } from './format.ts'
import { Paged, type PagedColumn } from './paged.ts'
import { causeWords, remedyShort } from './remedies.ts'
import { became, share, signed } from './diff-words.ts'
import type { AreaChange, AreaSide, Change, DiffSide, WhyDiff } from './report-types.ts'
import { explainTerms, TERMS, term } from './terms.ts'
import { areaName, visible } from './visible.ts'
import './style.css'

/** The schema version that this page understands. */
const SCHEMA = 1

function figures(diff: WhyDiff): HTMLElement {
  const row = (what: string, change: Change | undefined, text: (value: number) => string) =>
    change === undefined ? [] : [{ what, change, text }]
  const rows = [
    ...row('modelled time', diff.seconds, seconds),
    ...row('of it waiting for busy memories', diff.contention_seconds, seconds),
    ...row('cost, in local references', diff.cost, integer),
    ...row('of it avoidable', diff.avoidable_cost, integer),
    ...row('non-local', diff.nonlocal_percent, percent),
    ...row('busiest memory over the mean', diff.imbalance, (value) => digits(value, 3)),
  ]
  return table(
    rows,
    [
      { title: 'figure', value: (one) => one.what, text: (one) => one.what },
      { title: 'before', value: (one) => one.change.before, text: (one) => one.text(one.change.before) },
      { title: 'after', value: (one) => one.change.after, text: (one) => one.text(one.change.after) },
      { title: 'change', value: (one) => one.change.after - one.change.before, text: (one) => share(one.change) },
    ],
    { caption: 'The whole program, modelled' },
  )
}

function areas(diff: WhyDiff): HTMLElement {
  const column = (
    title: string,
    value: (area: AreaChange) => number | undefined,
    wide = false,
  ): PagedColumn<AreaChange> => ({
    title,
    value,
    text: (area) => (value(area) === undefined ? '–' : count(value(area)!)),
    wide,
  })
  const cause = (title: string, side: (area: AreaChange) => AreaSide | undefined): PagedColumn<AreaChange> => ({
    title,
    help: TERMS.cause,
    value: (area) => causeWords(side(area)?.cause),
    text: (area) => causeWords(side(area)?.cause),
    wide: true,
  })
  const columns: PagedColumn<AreaChange>[] = [
    {
      title: 'area',
      value: areaName,
      text: areaName,
      draw: (area) => h('bdi', { class: 'area-name' }, clip(areaName(area), 90)),
    },
    column('cost before', (area) => area.before?.cost, true),
    column('cost after', (area) => area.after?.cost),
    {
      ...column('change', (area) => area.change, true),
      text: (area) => signed(area.change),
      help: 'of the cost, in local references',
    },
    {
      title: 'became',
      value: became,
      text: became,
      draw: (area) => h('span', { class: area.change < 0 ? 'better' : area.change > 0 ? 'worse' : '' }, became(area)),
    },
    cause('cause before', (area) => area.before),
    cause('cause after', (area) => area.after),
  ]
  return new Paged(diff.areas, columns, {
    caption: 'Areas of data, by how much their cost changed',
    name: 'changes',
    search: 'Search areas',
    words: (area) => `${areaName(area)} ${area.name_before ?? ''} ${became(area)}`,
    detail: (area) => detail(area),
  }).element
}

function detail(area: AreaChange): HTMLElement {
  const rows: { what: string; of: (side: AreaSide) => string }[] = [
    { what: 'size', of: (side) => bytes(side.bytes) },
    { what: 'references', of: (side) => count(side.references) },
    { what: 'cost', of: (side) => count(side.cost) },
    { what: 'avoidable', of: (side) => count(side.avoidable_cost) },
    { what: 'cause', of: (side) => causeWords(side.cause) },
    { what: 'what to do', of: (side) => remedyShort(side.remedy) },
  ]
  const text = (side: AreaSide | undefined, of: (side: AreaSide) => string) => (side ? of(side) : '–')
  const before = area.name_before === undefined ? undefined : ` (before: ${clip(visible(area.name_before), 2000)})`
  return h(
    'div',
    {},
    h('p', { class: 'full-name' }, h('bdi', {}, clip(areaName(area), 4000)), before),
    table(
      rows,
      [
        { title: '', value: (row) => row.what, text: (row) => row.what },
        { title: 'before', value: (row) => text(area.before, row.of), text: (row) => text(area.before, row.of) },
        { title: 'after', value: (row) => text(area.after, row.of), text: (row) => text(area.after, row.of) },
      ],
      { caption: 'Before and after' },
    ),
  )
}

function side(title: string, one: DiffSide): HTMLElement {
  return h(
    'div',
    { class: one.verdict === 'not-numa' ? 'verdict calm' : 'verdict' },
    h('h2', {}, title),
    h('p', { class: 'sentence' }, visible(one.sentence)),
    h('p', { class: 'basis' }, visible(one.basis)),
  )
}

function joined(diff: WhyDiff): HTMLElement {
  const { by_name, by_function, only_before, only_after } = diff.joined
  return h(
    'p',
    { class: 'note' },
    `${count(by_name)} areas joined by name, ${count(by_function)} by function and file at other lines; ` +
      `${count(only_before)} went away, ${count(only_after)} are new.`,
  )
}

function build(diff: WhyDiff, page: HTMLElement): void {
  document.title = `${visible(diff.before.trace.name)} and ${visible(diff.after.trace.name)} – Homing`
  page.append(
    h(
      'header',
      {},
      h('p', { class: 'kicker' }, 'What a change did to where memory is'),
      h('h1', {}, visible(diff.before.trace.name), ' → ', visible(diff.after.trace.name)),
    ),
    h('p', { class: 'headline' }, visible(diff.sentence)),
    ...(diff.differs.length === 0
      ? []
      : [
          h(
            'div',
            { class: 'differs', role: 'note' },
            h('p', { class: 'warning' }, 'The two differ in more than the program:'),
            h('ul', {}, ...diff.differs.map((what) => h('li', {}, visible(what)))),
          ),
        ]),
    h('div', { class: 'pair sides' }, side('Before', diff.before), side('After', diff.after)),
    h('section', { class: 'part' }, h('h2', {}, 'Figures'), figures(diff)),
    h('section', { class: 'part' }, h('h2', {}, 'Areas'), joined(diff), areas(diff)),
    h(
      'p',
      { class: 'note version' },
      'All figures are ',
      term('modelled'),
      `. Written by ${diff.generator}, schema ${diff.schema}.`,
    ),
  )
  explainTerms(page)
}

/** Reads the embedded difference; the error says what to do. */
function read(text: string): WhyDiff {
  if (text.trim() === '')
    throw new Error('This is the empty template of the page: it holds no data. `homing diff A B --html FILE` fills it.')
  let diff: Partial<WhyDiff> | null
  try {
    diff = JSON.parse(text) as Partial<WhyDiff> | null
  } catch (error) {
    throw new Error(`The data inside this file is damaged (${(error as Error).message}). Write the page again.`)
  }
  if (diff?.schema !== SCHEMA || !Array.isArray(diff.areas))
    throw new Error(
      `This page reads differences of schema ${SCHEMA}, and the data inside is of schema ` +
        `${diff?.schema ?? 'unknown'}. Write it again with the program that brought this page.`,
    )
  return diff as WhyDiff
}

const page = document.getElementById('page')!
try {
  build(read(document.getElementById('homing-report')!.textContent ?? ''), page)
} catch (error) {
  page.replaceChildren(
    h('h1', {}, 'Homing difference'),
    h('p', { class: 'warning', role: 'alert' }, (error as Error).message),
  )
} finally {
  document.documentElement.dataset.ready = 'true'
}
