import { expect, test } from 'vitest'
import { degradation } from '../../src/sections/levels.ts'
import { fixture } from '../fixture.ts'

test('rows are sorted by policy and level, and those without a level are left out', () => {
  const trace = fixture({ bare: true }).traces[0]!
  expect(degradation(trace).policies).toEqual([])
  const [optimal, ...rows] = trace.rows
  const at = (information: string) => rows.map((row) => ({ ...row, information }))
  const { levels, policies } = degradation({
    ...trace,
    rows: [optimal!, ...at('perfect')],
    further_levels: at('every:64'),
  })
  expect(levels).toEqual(['perfect', 'every:64'])
  expect(policies.map(({ policy }) => policy)).toEqual(rows.map((row) => row.policy))
  expect(policies.every((entry) => entry.rows.size === 2)).toBe(true)
})
