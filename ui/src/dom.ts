// Building elements, and tables that are also the accessible form of every chart.

import { csv, csvButton } from './csv.ts'

type Attributes = Record<string, string | number | boolean | undefined>
type Child = Node | string | undefined

/** Creates an HTML element. An attribute that is `true` is set empty, one that is `false` or undefined is left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue
    element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.filter((child) => child !== undefined))
  return element
}

let counter = 0
/** An id that no other element has. */
export function freshId(stem: string): string {
  counter += 1
  return `${stem}-${counter}`
}

/** A column of a table. */
export interface Column<T> {
  title: string
  /** What the column means, shown on hover and read out. */
  help?: string
  /** The value to sort by; undefined sorts last. */
  value: (item: T) => number | string | undefined
  text: (item: T) => string
}

/** A table. The first column is the row header; with `sortable`, each column header is a button. */
export function table<T>(
  items: readonly T[],
  columns: readonly Column<T>[],
  options: { caption: string; sortable?: boolean; mark?: (item: T) => string | undefined },
): HTMLElement {
  const body = h('tbody')
  const fill = (rows: readonly T[]) =>
    body.replaceChildren(
      ...rows.map((item) =>
        h('tr', { class: options.mark?.(item) }, ...columns.map((column, i) => cell(column, item, i))),
      ),
    )
  fill(items)
  const heads = columns.map((column) => h('th', { scope: 'col', title: column.help, class: numeric(items, column) }))
  let order: { column: number; up: boolean } | undefined
  const sortBy = (index: number) => {
    const first = items.find((item) => columns[index]!.value(item) !== undefined)
    const text = first !== undefined && typeof columns[index]!.value(first) === 'string'
    order = { column: index, up: order?.column === index ? !order.up : text || index > 0 }
    heads.forEach((head, i) => {
      if (i === index) head.setAttribute('aria-sort', order!.up ? 'ascending' : 'descending')
      else head.removeAttribute('aria-sort')
    })
    fill(sorted(items, columns[index]!, order.up))
  }
  heads.forEach((head, i) => {
    if (!options.sortable) return head.append(columns[i]!.title)
    const button = h('button', { type: 'button', title: 'Sort by this column' }, columns[i]!.title)
    button.addEventListener('click', () => sortBy(i))
    head.append(button)
  })
  const caption = h('caption', {}, options.caption, ' ')
  caption.append(
    csvButton(options.caption, () =>
      csv([columns.map((column) => column.title), ...items.map((item) => columns.map((column) => column.value(item)))]),
    ),
  )
  const element = h('table', {}, caption, h('thead', {}, h('tr', {}, ...heads)), body)
  return h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': options.caption }, element)
}

// Made once: comparing by `localeCompare` looks up the language each time.
const inOrder = new Intl.Collator()

/** The items in the order of a column; missing values stay last in both directions. */
export function sorted<T>(items: readonly T[], column: Column<T>, up: boolean): T[] {
  return [...items].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)]
    if (x === undefined || y === undefined) return Number(x === undefined) - Number(y === undefined)
    const less = typeof x === 'string' || typeof y === 'string' ? inOrder.compare(String(x), String(y)) : x - y
    return up ? less : -less
  })
}

function numeric<T>(items: readonly T[], column: Column<T>): string | undefined {
  return items.some((item) => typeof column.value(item) === 'number') ? 'number' : undefined
}

function cell<T>(column: Column<T>, item: T, index: number): HTMLElement {
  if (index === 0) return h('th', { scope: 'row' }, column.text(item))
  const value = column.value(item)
  const data = typeof value === 'number' ? { class: 'number', 'data-value': value } : {}
  return h('td', data, column.text(item))
}
