import { expect, test } from 'vitest'
import { inkOn, nodeColour } from '../../src/palette.ts'
import { parse } from '../../src/report.ts'
import { gapSentence, named, roles } from '../../src/roles.ts'
import { folded } from '../../src/chart.ts'
import { ranked, split } from '../../src/sections/cost.ts'
import { lines } from '../../src/sections/curves.ts'
import { fixture } from '../fixture.ts'

const rows = fixture().traces[0]!.rows
const plain = (text: string) => text.replaceAll('\u202f', ' ')

test('the parts of a cost add up to MCPR', () => {
  for (const options of [{}, { global: true }, { nodes: 1 }, { pages: 0 }]) {
    const report = fixture(options)
    for (const row of report.traces[0]!.rows) {
      const { local, remote, global, copies } = split(row, report.machine)
      expect(local + remote + global + copies).toBeCloseTo(row.mcpr, 9)
      expect(Math.min(local, remote, global, copies)).toBeGreaterThanOrEqual(0)
    }
  }
})

test('bars are folded, but the named policies stay', () => {
  const many = fixture({
    pages: 10,
    policies: [...Array.from({ length: 200 }, (_, i) => `p${i}`), 'first-touch', 'homing'],
  }).traces[0]!.rows
  expect(ranked(many)).toHaveLength(202)
  const few = folded(ranked(many), named)
  expect(few).toHaveLength(3)
  expect(few.map((row) => row.policy)).toEqual(expect.arrayContaining(['first-touch', 'homing']))
  expect(few.map((row) => row.mcpr)).toEqual(few.map((row) => row.mcpr).sort((a, b) => a - b))
})

test('the gap sentence speaks of baseline, bound and leader', () => {
  const [optimal, first, homing] = ['optimal', 'first-touch', 'homing'].map((name) =>
    rows.find((row) => row.policy === name)!,
  )
  expect(plain(gapSentence(rows))).toBe(
    `In total, first-touch costs ${first!.gap_percent.toFixed(0)} % more than the best placement, homing ` +
      `${homing!.gap_percent.toFixed(0)} % more.`,
  )
  expect(gapSentence([optimal!])).toBe('')
  expect(gapSentence([])).toBe('')
  expect(gapSentence([optimal!, { ...first!, gap_percent: 0 }])).toBe(
    'In total, first-touch costs as little as the best placement.',
  )
  expect(roles(rows.filter((row) => row.policy !== 'homing')).leader?.policy).toBe('delay')
  expect(roles(rows.filter((row) => row.policy !== 'first-touch')).baseline?.policy).toBe('round-robin')
})

test('curves show the named lines first, and keep the others at hand', () => {
  const series = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'homing', 'optimal'].map((policy, i) => ({
    policy,
    exact: false,
    points: [{ x: 1, mcpr: 9 - i, local: 1, remote: 0, global: 0, copies: 0, moves_per_page: 0 }],
  }))
  const all = lines([...series, { policy: 'empty', exact: false, points: [] }])
  expect(all).toHaveLength(9)
  expect(all.filter((line) => line.shown)).toHaveLength(7)
  expect(all.slice(0, 2).map((line) => line.series.policy)).toEqual(['homing', 'optimal'])
  expect(new Set(all.map((line) => `${line.colour}${line.dash}`)).size).toBe(9)
})

test('node colours are told apart, and their numbers can be read', () => {
  for (const nodes of [1, 2, 4, 8, 9, 16, 64]) {
    const colours = Array.from({ length: nodes }, (_, node) => nodeColour(node, nodes))
    expect(new Set(colours).size).toBe(nodes)
  }
  expect(nodeColour(4, 5, 4)).toBe('#8A8A8A')
  expect(inkOn('#F0E442')).toBe('#000000')
  expect(inkOn('#0072B2')).toBe('#ffffff')
})

test('data of another schema is refused with advice', () => {
  expect(() => parse('')).toThrow(/empty template/)
  expect(() => parse('{')).toThrow(/damaged/)
  expect(() => parse('null')).toThrow(/unknown/)
  expect(() => parse('{"schema":2,"traces":[]}')).toThrow(/schema 2/)
  expect(parse(JSON.stringify(fixture())).traces).toHaveLength(1)
})
