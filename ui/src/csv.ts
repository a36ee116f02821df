// Tables as CSV (RFC 4180), and the button that saves one.

import { h } from './dom.ts'

/** A cell: texts that a spreadsheet would take for a formula begin with an apostrophe. */
function cell(value: number | string | undefined): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : ''
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** The rows of a table as CSV. */
export function csv(rows: readonly (readonly (number | string | undefined)[])[]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('')
}

/** A button that saves what `make` gives. */
export function csvButton(title: string, make: () => string): HTMLElement {
  const button = h('button', { type: 'button', class: 'csv', 'aria-label': `Save as CSV: ${title}` }, 'CSV')
  button.addEventListener('click', () => {
    const url = URL.createObjectURL(new Blob([make()], { type: 'text/csv' }))
    const link = h('a', { href: url, download: `${fileName(title)}.csv` })
    link.click()
    setTimeout(() => URL.revokeObjectURL(url), 10_000)
  })
  return button
}

function fileName(title: string): string {
  return (
    title
      .replaceAll(/[^\w]+/g, '-')
      .replaceAll(/^-|-$/g, '')
      .slice(0, 60)
      .toLowerCase() || 'table'
  )
}
