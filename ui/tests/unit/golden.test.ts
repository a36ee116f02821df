// The types of report.ts against a report that the program itself made: `homing compare` of a small imported trace on
// the machine `ace`, with sweeps and disturbed orders. The compiler checks the types, this file the names.

import { expect, test } from 'vitest'
import { parse, type Report } from '../../src/report.ts'
import { split } from '../../src/sections/cost.ts'
import { fixture } from '../fixture.ts'
import golden from '../golden.json'

const report: Report = golden

/** The paths of all fields, with `[]` for any place in an array. */
function paths(value: unknown, at = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => paths(item, `${at}[]`))
  if (typeof value !== 'object' || value === null) return [at]
  return Object.entries(value).flatMap(([name, item]) => [`${at}.${name}`, ...paths(item, `${at}.${name}`)])
}

test('the program writes no field that the types do not have, and all that they demand', () => {
  const real = new Set(paths(report))
  const full = new Set(paths(fixture({ global: true })))
  expect([...real].filter((path) => !full.has(path))).toEqual([])
  const optional = /\.(by_node|areas|area)(\[\]|$)|command\[\]$/ // an imported trace has no command
  expect([...full].filter((path) => !real.has(path) && !optional.test(path))).toEqual([])
})

test('a real report is read, and its costs split without a remainder', () => {
  const { traces, machine } = parse(JSON.stringify(report))
  for (const row of traces[0]!.rows) {
    const { local, remote, global, copies } = split(row, machine)
    expect(local + remote + global + copies).toBeCloseTo(row.mcpr, 9)
  }
  const map = traces[0]!.page_map
  for (const column of [map.references, map.class, map.initial, map.most_frequent, map.last, map.optimal]) expect(column).toHaveLength(map.shown)
})
