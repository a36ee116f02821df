// Who uses the pages of an area when: what the report packs into words, page by page.

import { integer } from './format.ts'
import type { AreaTimeline, PageMap, Timelines } from './report.ts'

/** Who uses a page in an interval: the node that does so most, -1 if none does, and whether others do so too. */
export interface User {
  node: number
  several: boolean
}

const NOBODY: User = { node: -1, several: false }

/** The cells of an interval, of which `12+x8` says: eight that node 12 uses most, but not alone. At most `cells`. */
export function unpack(row: string, cells: number): User[] {
  const users: User[] = []
  for (const word of row.split(' ')) {
    const found = /^(\.|\d+)(\+?)(?:x(\d+))?$/.exec(word)
    const user = !found || found[1] === '.' ? NOBODY : { node: Number(found[1]), several: found[2] === '+' }
    const times = Math.min(Number(found?.[3] ?? 1), cells - users.length)
    for (let i = 0; i < times; i += 1) users.push(user)
  }
  return users
}

/** The cell of each page: the last one that does not begin behind it. `pages` are in any order. */
export function cellsOf(timeline: AreaTimeline, map: PageMap, pages: readonly number[]): number[] {
  const begins = timeline.cells.map((address) => BigInt(address))
  return pages.map((page) => {
    const address = BigInt(map.vaddr[page]!)
    let [low, high] = [0, begins.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (begins[middle]! <= address) low = middle + 1
      else high = middle
    }
    return low - 1
  })
}

/** What the label of a slider says at an interval; 0 stands for the whole run. */
export function label(at: number, all: Timelines): string {
  if (at === 0) return `whole run: ${all.intervals} intervals, ${integer(all.references)} references`
  const from = (at - 1) * all.interval_references
  const to = Math.min(at * all.interval_references, all.references)
  return `interval ${at} of ${all.intervals}: references ${integer(from + 1)} to ${integer(to)}`
}

/** What a timeline leaves out; nothing if it leaves out nothing. */
export function folded({ pages_per_cell: per, pages_folded: pages }: AreaTimeline): string | undefined {
  if (pages === 0) return undefined
  return (
    `By interval, up to ${integer(per)} neighbouring pages are shown as one: ${integer(pages)} pages have no ` +
    'timeline of their own.'
  )
}
