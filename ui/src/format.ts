// Numbers and names as a person reads them. Pure functions.

const NARROW = '\u202f'

/** An integer with thin spaces between thousands: 1 234 567. */
export function integer(value: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, NARROW)
}

/** A large count in words of three digits: 1.23 million. Below 100 000 it is exact. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  const scales: [number, string][] = [
    [1e15, '×10¹⁵'],
    [1e12, 'trillion'],
    [1e9, 'billion'],
    [1e6, 'million'],
  ]
  for (const [scale, word] of scales) {
    if (Math.abs(value) >= scale) return `${digits(value / scale, 3)} ${word}`
  }
  return integer(value)
}

/** A count for an axis: 12k, 3.4M. */
export function short(value: number): string {
  const scales: [number, string][] = [
    [1e15, 'P'],
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ]
  for (const [scale, letter] of scales) {
    if (Math.abs(value) >= scale) return `${digits(value / scale, 3)}${letter}`
  }
  return digits(value, 3)
}

/**
 * A number with `n` significant digits, never in exponent form below 10^15, without trailing zeros behind the
 * point.
 */
export function digits(value: number, n: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  if (value === 0) return '0'
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1
  if (whole >= n) return Math.abs(value) >= 1e15 ? value.toExponential(n - 1) : integer(value)
  const places = Math.min(n - whole, 9)
  const text = value.toFixed(places)
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/** Mean cost per reference: three decimals up to 100, then fewer. */
export function mcpr(value: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  return Math.abs(value) < 100 ? value.toFixed(3) : digits(value, 5)
}

/** A share in per cent. Small shares keep a digit; what is not zero never prints as 0 %, nor as 100 % if below. */
export function percent(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return 'n/a'
  const size = Math.abs(value)
  const sign = value < 0 ? '−' : ''
  let text: string
  if (size === 0) return `0${NARROW}%`
  else if (size < 0.01) text = `<${NARROW}0.01`
  else if (size < 1) text = size.toFixed(2)
  else if (size < 10) text = size.toFixed(1)
  else if (size < 100 && size >= 99.5) text = size.toFixed(size >= 99.95 ? 2 : 1)
  else if (size < 1e6) text = integer(size)
  else text = digits(size, 3)
  if (size < 100 && text.startsWith('100')) text = '99.99'
  return `${sign}${text}${NARROW}%`
}

/** A size in bytes with binary units: 4 KiB. */
export function bytes(value: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${digits(value, 3)}\u00a0${units[unit]}`
}

/** Seconds with a fitting unit. */
export function seconds(value: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  if (value === 0) return '0 s'
  if (value < 1e-3) return `${digits(value * 1e6, 3)} µs`
  if (value < 1) return `${digits(value * 1e3, 3)} ms`
  return value < 120 ? `${digits(value, 3)} s` : `${digits(value / 60, 3)} min`
}

/** A shell command line of the words, quoted where a shell would need it. */
export function commandLine(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ')
}

/** Shortens a long name in the middle, keeping both ends. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text
  const head = Math.ceil((limit - 1) / 2)
  return `${text.slice(0, head)}…${text.slice(text.length - (limit - 1 - head))}`
}
