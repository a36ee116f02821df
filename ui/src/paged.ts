// A long table in pages: searched, sorted and opened row by row, with no more rows in the page than are shown.

import { csv, csvButton } from './csv.ts'
import { type Column, freshId, h, sorted } from './dom.ts'
import { integer } from './format.ts'

/** A column that may draw its cells, and may give way on narrow windows. */
export interface PagedColumn<T> extends Column<T> {
  /** The cell's content instead of `text`. */
  draw?: (item: T) => Node
  /** Left out where there is no room; the row's detail says it. */
  wide?: boolean
  /** Left out on phones. */
  roomy?: boolean
}

/** What a paged table shows. */
export interface PagedOptions<T> {
  caption: string
  /** Stable name for tests. */
  name: string
  /** What the search box is for. */
  search: string
  /** The text that is searched. */
  words: (item: T) => string
  /** What opens below a row. */
  detail: (item: T) => Node
  /** Told which row is open, or none. */
  opened?: (item: T | undefined) => void
}

/** Rows at a time. */
const ROWS = 20
/** Rows on paper. */
const PRINTED = 10

/** A table and what leads to its rows. */
export class Paged<T> {
  readonly element: HTMLElement
  private readonly body = h('tbody')
  private readonly said = h('p', { class: 'count', 'aria-live': 'polite' })
  private readonly pager = h('div', { class: 'pager' })
  private readonly heads: HTMLElement[]
  /** Which columns are numbers, by the first items: their cells stand at the right, also where there is none. */
  private readonly numbers: boolean[]
  private readonly box: HTMLInputElement
  private lower: string[] | undefined
  private items: readonly T[]
  private found: readonly T[]
  private order: { column: number; up: boolean } | undefined
  private page = 0
  private open: T | undefined

  constructor(
    private readonly all: readonly T[],
    private readonly columns: readonly PagedColumn<T>[],
    private readonly options: PagedOptions<T>,
  ) {
    this.items = this.found = all
    const first = all.slice(0, 100)
    this.numbers = columns.map((one) => !one.draw && first.some((item) => typeof one.value(item) === 'number'))
    this.heads = columns.map((column, i) => this.head(column, i))
    const id = freshId('search')
    this.box = h('input', { type: 'search', id, autocomplete: 'off', spellcheck: 'false' })
    this.box.addEventListener('input', () => this.search(this.box.value))
    const button = csvButton(options.caption, () => this.csv())
    const table = h(
      'table',
      {},
      h('caption', {}, options.caption),
      h('thead', {}, h('tr', {}, ...this.heads)),
      this.body,
    )
    this.element = h(
      'div',
      { class: 'paged', 'data-chart': options.name },
      h('div', { class: 'tools' }, h('label', { for: id }, options.search), this.box, this.said, button),
      h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': options.caption }, table),
      this.pager,
    )
    this.fill()
  }

  /** Whether an item is in the table. */
  has(fits: (item: T) => boolean): boolean {
    return this.all.some(fits)
  }

  /** Opens the row of the first item that fits, on its page of the table; false if there is none. */
  show(fits: (item: T) => boolean): boolean {
    const item = this.all.find(fits)
    if (item === undefined) return false
    if (!this.found.includes(item)) {
      this.box.value = ''
      this.search('')
    }
    this.page = Math.floor(this.found.indexOf(item) / ROWS)
    this.open = item
    this.fill()
    this.body.querySelector('tr.open')?.scrollIntoView({ block: 'start' })
    return true
  }

  private head(column: PagedColumn<T>, index: number): HTMLElement {
    const button = h('button', { type: 'button', title: column.help ?? 'Sort by this column' }, column.title)
    button.addEventListener('click', () => this.sortBy(index))
    const name = classes(column, this.numbers[index]!)
    return h('th', { scope: 'col', class: name }, button)
  }

  private sortBy(index: number): void {
    const column = this.columns[index]!
    const text = this.all.some((item) => typeof column.value(item) === 'string')
    this.order = { column: index, up: this.order?.column === index ? !this.order.up : text }
    this.heads.forEach((head, i) => {
      if (i === index) head.setAttribute('aria-sort', this.order!.up ? 'ascending' : 'descending')
      else head.removeAttribute('aria-sort')
    })
    this.items = sorted(this.all, column, this.order.up)
    this.lower = undefined
    this.search(this.box.value)
  }

  private search(text: string): void {
    const wanted = text.trim().toLowerCase()
    if (wanted === '') this.found = this.items
    else {
      this.lower ??= this.items.map((item) => this.options.words(item).toLowerCase())
      this.found = this.items.filter((_, i) => this.lower![i]!.includes(wanted))
    }
    this.page = 0
    this.fill()
    this.said.textContent = wanted === '' ? '' : `${integer(this.found.length)} of ${integer(this.all.length)}`
  }

  private fill(): void {
    const from = this.page * ROWS
    const rows = this.found.slice(from, from + ROWS)
    const drawn = rows.flatMap((item, i) => this.row(item, i >= PRINTED))
    const none = h('tr', {}, h('td', { colspan: this.columns.length, class: 'empty' }, 'Nothing fits.'))
    this.body.replaceChildren(...(drawn.length > 0 ? drawn : [none]))
    this.pager.replaceChildren(...this.pages(from, rows.length))
  }

  private row(item: T, beyond: boolean): HTMLElement[] {
    const open = this.open === item
    const cells = this.columns.map((column, i) => {
      const content = column.draw?.(item) ?? column.text(item)
      if (i === 0) return h('th', { scope: 'row' }, this.opener(item, content, open))
      return h('td', { class: classes(column, this.numbers[i]!) }, content)
    })
    const row = h('tr', { class: `${open ? 'open' : ''} ${beyond ? 'beyond' : ''}`.trim() || undefined }, ...cells)
    if (!open) return [row]
    const detail = h('td', { colspan: this.columns.length }, h('div', { class: 'detail' }, this.options.detail(item)))
    return [row, h('tr', { class: 'detail-row' }, detail)]
  }

  private opener(item: T, content: Node | string, open: boolean): HTMLElement {
    const button = h('button', { type: 'button', class: 'opener', 'aria-expanded': String(open) }, content)
    button.addEventListener('click', () => {
      this.open = open ? undefined : item
      this.options.opened?.(this.open)
      const place = this.found.slice(this.page * ROWS, (this.page + 1) * ROWS).indexOf(item)
      this.fill()
      this.body.querySelectorAll<HTMLElement>('button.opener')[place]?.focus()
    })
    return button
  }

  private pages(from: number, shown: number): HTMLElement[] {
    const all = this.found.length
    if (all <= ROWS) return []
    const go = (title: string, to: number) => {
      const off = to < 0 || to * ROWS >= all || to === this.page
      const button = h('button', { type: 'button', disabled: off }, title)
      button.addEventListener('click', () => {
        this.page = to
        this.fill()
        const again = [...this.pager.querySelectorAll('button')].find((other) => other.textContent === title)
        ;(again?.disabled ? this.pager.querySelector<HTMLElement>('button:enabled') : again)?.focus()
      })
      return button
    }
    const last = Math.ceil(all / ROWS) - 1
    return [
      go('First', 0),
      go('Previous', this.page - 1),
      h('span', {}, `${integer(from + 1)} to ${integer(from + shown)} of ${integer(all)}`),
      go('Next', this.page + 1),
      go('Last', last),
    ]
  }

  private csv(): string {
    const rows = this.found.map((item) => this.columns.map((column) => column.value(item)))
    return csv([this.columns.map((column) => column.title), ...rows])
  }
}

function classes(column: { wide?: boolean; roomy?: boolean }, number: boolean): string | undefined {
  const found = [column.wide && 'wide', column.roomy && 'roomy', number && 'number'].filter(Boolean)
  return found.length > 0 ? found.join(' ') : undefined
}
