// The types of report.ts against reports that the program itself made (`make ui-data`): with sweeps, page sizes and
// disturbed orders on the machine `ace`, and with caches. The compiler checks the types, this file the names.

import { expect, test } from 'vitest'
import { parse, type Report } from '../../src/report.ts'
import { cachesSection } from '../../src/sections/caches.ts'
import { split } from '../../src/sections/cost.ts'
import { bySize } from '../../src/sections/sizes.ts'
import { fixture } from '../fixture.ts'
import misses from '../golden-misses.json'
import golden from '../golden.json'

// The compiler takes words in JSON for any text: what the unions of words are is not checked here.
type Read<T> = T extends string ? string : T extends object ? { [K in keyof T]: Read<T[K]> } : T

const read: Read<Report> = golden
const readOfMisses: Read<Report> = misses
const [report, ofMisses] = [read as Report, readOfMisses as Report]

/** The paths of all fields, with `[]` for any place in an array. */
function paths(value: unknown, at = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => paths(item, `${at}[]`))
  if (typeof value !== 'object' || value === null) return [at]
  return Object.entries(value).flatMap(([name, item]) => [`${at}.${name}`, ...paths(item, `${at}.${name}`)])
}

test('the program writes all that the page shows, and nothing that the made-up reports of other tests lack', () => {
  const real = new Set([...paths(report), ...paths(ofMisses)])
  const full = new Set([...paths(fixture({ global: true })), ...paths(fixture({ general: true }))])
  expect([...real].filter((path) => !full.has(path))).toEqual([])
  // An imported trace has no command and no names of areas, one trace has no means, and no remedy for all pays on it.
  const absent =
    /(command|page_map\.areas)\[\]$|areas\[\]\.name$|\.means\[\]|\.(access|copy)(\[\]|$)|for_all\[\]\.paste/
  expect([...full].filter((path) => !real.has(path) && !absent.test(path))).toEqual([])
})

test('a real report is read, and its costs split without a remainder', () => {
  const { traces, machine } = parse(JSON.stringify(report))
  for (const row of traces[0]!.rows) {
    const { local, remote, global, copies } = split(row, machine)
    expect(local + remote + global + copies).toBeCloseTo(row.mcpr, 9)
  }
  const map = traces[0]!.page_map
  for (const column of [map.references, map.class, map.initial, map.most_frequent, map.last, map.optimal])
    expect(column).toHaveLength(map.shown)
})

test('every policy has a row at every page size', () => {
  const { sizes, policies } = bySize(report.traces[0]!.page_sizes!)
  expect(sizes).toEqual([4096, 65536])
  expect(policies.map(({ policy }) => policy)).toEqual(['optimal', 'first-touch', 'ace', 'homing'])
  expect(policies.every((entry) => entry.rows.size === 2)).toBe(true)
})

test('only a report with caches shows them', () => {
  expect(cachesSection(report.traces[0]!.trace)).toBeUndefined()
  expect(ofMisses.traces[0]!.trace.caches!.references).toBe(6000)
})
