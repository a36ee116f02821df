import { expect, test } from 'vitest'
import { bytes, clip, commandLine, count, digits, integer, mcpr, percent, seconds, short } from '../../src/format.ts'

const plain = (text: string) => text.replaceAll(/[\u202f\u00a0]/g, ' ')

test('integers and counts', () => {
  expect(plain(integer(1234567))).toBe('1 234 567')
  expect(plain(integer(999))).toBe('999')
  expect(plain(count(99_999))).toBe('99 999')
  expect(count(1_234_567)).toBe('1.23 million')
  expect(count(2.5e9)).toBe('2.5 billion')
  expect(count(3e18)).toContain('×10¹⁵')
  expect(short(12_345)).toBe('12.3k')
  expect(short(0.5)).toBe('0.5')
  expect(integer(Number.NaN)).toBe('n/a')
})

test('significant digits', () => {
  for (const [value, n, text] of [
    [0, 3, '0'],
    [3.14159, 3, '3.14'],
    [100, 3, '100'],
    [0.001234, 2, '0.0012'],
    [2.5, 4, '2.5'],
    [-0.25, 3, '-0.25'],
    [999.9, 4, '999.9'],
  ] as const) {
    expect(digits(value, n)).toBe(text)
  }
  expect(digits(1e20, 3)).toBe('1.00e+20')
  expect(mcpr(1)).toBe('1.000')
  expect(plain(mcpr(12345.6))).toBe('12 346')
})

test('percentages never hide a remainder', () => {
  for (const [value, text] of [
    [0, '0 %'],
    [0.004, '< 0.01 %'],
    [0.5, '0.50 %'],
    [9, '9.0 %'],
    [68.2, '68 %'],
    [99.6, '99.6 %'],
    [99.97, '99.97 %'],
    [99.9999, '99.99 %'],
    [100, '100 %'],
    [-14, '−14 %'],
    [182.2, '182 %'],
    [undefined, 'n/a'],
    [Number.POSITIVE_INFINITY, 'n/a'],
  ] as const) {
    expect(plain(percent(value))).toBe(text)
  }
})

test('sizes, times and addresses', () => {
  expect(plain(bytes(512))).toBe('512 B')
  expect(plain(bytes(4096))).toBe('4 KiB')
  expect(plain(bytes(3 * 2 ** 30))).toBe('3 GiB')
  expect(seconds(0)).toBe('0 s')
  expect(seconds(0.0123)).toBe('12.3 ms')
  expect(seconds(90)).toBe('90 s')
  expect(seconds(300)).toBe('5 min')
})

test('command lines and names', () => {
  expect(commandLine(['./a.out', '-n', '12', 'a b', "it's"])).toBe(`./a.out -n 12 'a b' 'it'\\''s'`)
  expect(commandLine([''])).toBe(`''`)
  expect(clip('short', 10)).toBe('short')
  expect(clip('abcdefghij', 5)).toBe('ab…ij')
})
