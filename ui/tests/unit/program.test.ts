import { describe, expect, it } from 'vitest'
import { estimated } from '../../src/sections/program.ts'

describe('a figure that is estimated from windows', () => {
  const text = (value: number) => value.toFixed(2)
  const figure = { value: 2, lower_bound: 1.5, upper_bound: 2.5, low: 1, high: 3 }

  it('comes with its interval', () => {
    expect(estimated(figure, text)).toBe('2.00 (1.00 to 3.00)')
  })

  it('says why it has none', () => {
    expect(estimated({ ...figure, low: null, high: null }, text)).toBe(
      '2.00 (no interval; in the mean from 1.50 to 2.50)',
    )
    const sure = { ...figure, lower_bound: 2, upper_bound: 2, low: null, high: null }
    expect(estimated(sure, text)).toBe('2.00 (no interval)')
    expect(estimated(undefined, text)).toBe('–')
  })
})
