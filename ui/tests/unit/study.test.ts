import { expect, test } from 'vitest'
import { type Cell, Groups, meanGap, parseStudy, recovered } from '../../src/study-data.ts'

const cell = (policy: string, start: string, gap_percent: number, trace = 'a'): Cell => ({
  trace,
  machine: 'm',
  start,
  information: 'perfect',
  policy,
  gap_percent,
  cost: 1,
  optimal_cost: 1,
  classes: [],
})

test('gaps are geometric means, best policy first, static policies in all columns', () => {
  const cells = [
    cell('bad', 's', 100),
    cell('bad', 's', 0, 'b'),
    cell('good', 's', 1),
    cell('good', 't', 3),
    cell('static', 'own', 2),
  ]
  const groups = new Groups(cells)
  expect(groups.columns).toEqual(['m · s · perfect', 'm · t · perfect'])
  expect(groups.policies).toEqual(['good', 'static', 'bad'])
  expect(groups.gap('bad', 'm · s · perfect')).toBeCloseTo(100 * (Math.SQRT2 - 1))
  expect(groups.gap('static', 'm · t · perfect')).toBeCloseTo(2)
  expect(groups.gap('bad', 'm · t · perfect')).toBeUndefined()
  expect(meanGap([])).toBeUndefined()
})

test('what cannot be shown is named', () => {
  expect(() => parseStudy('')).toThrow('holds no study')
  expect(() => parseStudy('{"schema":1,')).toThrow('damaged')
  expect(() => parseStudy('{"schema":9}')).toThrow('schema 9')
})

test('a share of next to nothing is not averaged', () => {
  const of = (gap_percent: number, recovered_percent?: number) => recovered({ gap_percent, recovered_percent } as Cell)
  expect([of(1, -9900), of(0)]).toEqual([undefined, undefined])
  expect([of(1, 90), of(20, -100), of(0, 100)]).toEqual([90, -100, 100])
})
