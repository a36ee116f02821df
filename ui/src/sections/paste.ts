// What newer versions of the program say besides: remedies to paste, and lines that travel between nodes. Reports of
// versions without these fields show nothing here.

import { h, table } from '../dom.ts'
import { clip, count, integer, percent } from '../format.ts'
import type { AreaReport, LinesReport, RemedyReport, Snippet } from '../report.ts'

interface Newer {
  lines?: LinesReport
  falsely_shared_percent?: number
}

/** Fields that this file shows. */
export const SHOWN: readonly (keyof Newer)[] = ['lines', 'falsely_shared_percent']

const FORMS: Record<string, string> = {
  c: 'C or C++',
  shell: 'shell',
  systemd: 'systemd unit, [Service]',
  oci: 'container, config.json',
  cgroup: 'cgroup, cpuset',
}

/** Whether a remedy comes with texts to paste. */
export function pasteOf(remedy: RemedyReport): Snippet[] {
  return Array.isArray(remedy.paste) ? remedy.paste : []
}

/** The texts of a remedy, each with where it belongs. */
export function pasteList(remedy: RemedyReport): HTMLElement | undefined {
  const all = pasteOf(remedy)
  if (all.length === 0) return undefined
  const one = ({ form, text }: Snippet) =>
    form === 'words'
      ? h('p', {}, clip(text, 2000))
      : h(
          'figure',
          { class: 'snippet' },
          h('figcaption', {}, FORMS[form] ?? form),
          h('pre', {}, h('code', {}, clip(text, 4000))),
        )
  return h('div', { class: 'paste' }, ...all.map(one))
}

/** What an area's lines do, if several nodes write them. */
export function travellingLines(area: AreaReport): HTMLElement | undefined {
  const { lines, falsely_shared_percent: falsely } = area as AreaReport & Newer
  const shared = falsely ? ` ${percent(falsely)} of its references are to pages that are falsely shared.` : ''
  if (!lines) return shared === '' ? undefined : h('p', { class: 'note' }, shared)
  const moved =
    `Lines travelled between nodes ${count(lines.falsely)} times with nothing new in them for whoever asked, ` +
    `${count(lines.truly)} times with something new.`
  const worst = Array.isArray(lines.worst) ? lines.worst : []
  return h(
    'div',
    { class: 'travelling' },
    h('p', { class: 'note' }, moved + shared),
    worst.length === 0
      ? undefined
      : table(
          worst,
          [
            { title: 'at byte', value: (line) => line.offset, text: (line) => integer(line.offset) },
            { title: 'nodes', value: (line) => line.nodes, text: (line) => integer(line.nodes) },
            { title: 'with nothing new', value: (line) => line.falsely, text: (line) => count(line.falsely) },
            { title: 'with something new', value: (line) => line.truly, text: (line) => count(line.truly) },
          ],
          { caption: 'The lines that travel most' },
        ),
  )
}
