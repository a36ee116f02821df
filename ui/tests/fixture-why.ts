// Made-up diagnoses for the tests: a FIXTURE, no measurement.

import type { AreaReport, AreaTimeline, MachineInfo, PageMap } from '../src/report.ts'
import type { TraceInfo, TrafficReport, WhyReport } from '../src/report.ts'

const sum = (counts: readonly number[]) => counts.reduce((a, b) => a + b, 0)

/** The areas of a page map, with what their pages say. */
function areas(map: PageMap, nodes: number, pageSize: number): AreaReport[] {
  const names: (string | undefined)[] = map.areas.length > 0 ? map.areas : [undefined]
  const found = names.map((name, index): AreaReport => {
    const pages = map.vaddr.flatMap((_, page) =>
      (map.area[page] ?? -1) === (name === undefined ? -1 : index) ? [page] : [],
    )
    const per = (homes: readonly number[]) => {
      const counts = new Array<number>(nodes).fill(0)
      for (const page of pages) counts[homes[page]!]! += 1
      return counts
    }
    const users = Array.from({ length: nodes }, (_, node) => sum(pages.map((page) => map.by_node[page]?.[node] ?? 0)))
    const references = sum(pages.map((page) => map.references[page]!))
    const now = references * (6 - index / 2)
    return {
      ...(name === undefined ? {} : { name }),
      areas_folded: 0,
      pages: pages.length,
      bytes: pages.length * pageSize,
      references,
      writes: Math.floor(references / 3),
      references_by_node: users,
      pages_made_by_node: per(map.initial),
      pages_on_node: per(map.initial),
      pages_best_on_node: per(map.most_frequent),
      class: 'write-shared',
      falsely_shared_percent: 0,
      sharing: [{ class: 'write-shared', references }],
      lines: { falsely: 12, truly: 30, worst: [{ offset: 64, nodes: 2, falsely: 4, truly: 9 }] },
      cost: {
        now,
        best_static: references * 2,
        spread: references * 4,
        bound: references * 1.5,
        least: references * 1.5,
      },
      avoidable_percent: 0,
      ...(index < 3
        ? {
            cause: 'initialised-by-one-thread' as const,
            remedy: {
              remedy: index === 1 ? ('spread' as const) : ('initialise-by-user' as const),
              cost: references * 2,
              saves: 0.1 / (index + 1),
              time_ratio: 1 - 0.1 / (index + 1),
              paste: [{ form: 'words' as const, text: 'initialise it in its users: #pragma omp parallel for' }],
            },
          }
        : {}),
    }
  })
  const avoidable = (area: AreaReport) => area.cost.now - area.cost.bound
  const all = Math.max(sum(found.map(avoidable)), 1)
  for (const area of found) area.avoidable_percent = (100 * avoidable(area)) / all
  found.sort((a, b) => avoidable(b) - avoidable(a))
  for (const area of found.slice(0, 2)) area.timeline = timeline(map, area)
  return found
}

/** Two pages a cell; the first cell is used by node 1 alone from the second interval on, the others by several. */
function timeline(map: PageMap, area: AreaReport): AreaTimeline {
  const index = area.name === undefined ? -1 : map.areas.indexOf(area.name)
  const pages = map.vaddr.filter((_, page) => (map.area[page] ?? -1) === index)
  const cells = pages.filter((_, at) => at % 2 === 0)
  const row = cells.length > 1 ? `1 0+x${cells.length - 1}` : '1'
  return {
    cells,
    pages_per_cell: 2,
    pages_folded: pages.length - cells.length,
    users: [`.x${cells.length}`, row, row, row],
  }
}

function traffic(map: PageMap, homes: readonly number[], nodes: number): TrafficReport {
  const rows = Array.from({ length: nodes }, () => new Array<number>(nodes).fill(0))
  map.by_node.forEach((users, page) => users.forEach((count, by) => (rows[by]![homes[page]!]! += count)))
  const all = sum(rows.flat())
  const served = rows.map((_, home) => sum(rows.map((row) => row[home]!)))
  return {
    by_node: rows,
    nonlocal_percent: all ? 100 - (100 * sum(rows.map((row, by) => row[by]!))) / all : 0,
    imbalance: all ? (Math.max(...served) * nodes) / all : 1,
  }
}

/** A made-up diagnosis of the pages in a map. */
export function fixtureWhy(map: PageMap, machine: MachineInfo, trace: TraceInfo, nodes: number): WhyReport {
  const all = areas(map, nodes, machine.page_size)
  const cost = (of: (area: AreaReport) => number) => sum(all.map(of))
  return {
    schema: 1,
    generator: 'homing 0.1.0 (fixture, made up for a test)',
    verdict: 'initialised-by-one-thread',
    words: 'initialised by one thread',
    sentence:
      'Initialised by one thread: 3 areas with 80 % of what can be avoided. The remedies take off 12 to 21 % ' +
      'of the time; at most 30 % could be.',
    basis: 'Modelled on fixture-machine (behind caches, one copy a page): made up for a test.',
    gain: { low: 0.12, high: 0.21 },
    at_most: 0.3,
    gain_is_of: 'modelled time',
    behind_caches: true,
    replication: false,
    threads_on: 'busy',
    busy: { threads: 4, alone: false, reached: 4, nodes: 4 },
    nodes_in_use: nodes,
    machine,
    trace,
    parameters: [{ name: 'threads-on', value: 'busy' }],
    cost: {
      now: cost((area) => area.cost.now),
      with_remedies: cost((area) => area.cost.best_static),
      bound: cost((area) => area.cost.bound),
    },
    elapsed: {
      now: { seconds: 1.5, contention_seconds: 0.2 },
      with_remedies: { seconds: 1.2, contention_seconds: 0.05 },
    },
    traffic: { now: traffic(map, map.initial, nodes), with_remedies: traffic(map, map.most_frequent, nodes) },
    one_remedy_for_all: [
      { remedy: 'spread', cost: 1000, saves: -0.05, time_ratio: 1.05 },
      {
        remedy: 'migrate',
        cost: 900,
        saves: 0.14,
        time_ratio: 0.86,
        paste: [{ form: 'shell', text: 'homing run -- PROGRAM' }],
      },
    ],
    areas: all,
    areas_untried: 0,
    timelines: { intervals: 4, interval_references: 250, references: 990, areas_left_out: all.length - 2 },
    notes: ['The diagnosis is made up for a test of the page.'],
  }
}
