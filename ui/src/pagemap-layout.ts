// Where each page of the page map stands: one cell a page, in address order, grouped by data area or by gaps between
// addresses. Pure functions; sections/pagemap.ts draws.

import { integer } from './format.ts'
import type { PageMap } from './report.ts'
import { visible } from './visible.ts'

/** Pages in address order that stand together under one label. */
export interface Block {
  label: string
  /** Places in the page columns, in the order of the cells. */
  pages: number[]
  /** Top of the cells, in pixels; the label is above. */
  top: number
}

/** A laid-out map. */
export interface Layout {
  blocks: Block[]
  columns: number
  /** Pixels from one cell to the next. */
  cell: number
  width: number
  height: number
}

/** Pages further apart than this stand in different groups. */
const GAP_PAGES = 256
/** Small groups are put together until no more than this many are left. */
const MOST_BLOCKS = 24
/** Pixels of a block's label. */
export const LABEL = 20
/** Cells are 2 to 16 pixels wide; a map that is taller than this at one size takes the next smaller. */
const SIZES = [16, 12, 10, 8, 6, 5, 4, 3, 2]
const TALL = 640

interface Group {
  area: number
  pages: number[]
}

/** The groups of a map: pages of one data area, broken at gaps between addresses. */
export function groups(map: PageMap, pageSize: number): Group[] {
  const size = Math.max(pageSize, 1)
  // Addresses of 52 bits and fewer are exact as numbers, which is much faster.
  const exact = (text: string) =>
    text.length <= 15 ? Number.parseInt(text, 16) / size : Number(BigInt(text) / BigInt(size))
  const number = map.vaddr.map((text) => Math.floor(exact(text)))
  const order = number.map((_, i) => i)
  // The program writes pages in order of address; sorting a million takes a second.
  const rising = number.every((one, i) => i === 0 || number[i - 1]! <= one)
  if (!rising) order.sort((a, b) => number[a]! - number[b]! || a - b)
  const result: Group[] = []
  let before = -1
  for (const page of order) {
    const area = map.area?.[page] ?? -1
    const group = result.at(-1)
    if (group && group.area === area && number[page]! - before <= GAP_PAGES) group.pages.push(page)
    else result.push({ area, pages: [page] })
    before = number[page]!
  }
  return result
}

/** Puts neighbouring small groups together so that labels do not outgrow the map. */
export function merged(all: readonly Group[], map: PageMap, pageSize: number): { label: string; pages: number[] }[] {
  let smallest = 0
  let parts = all.map((group) => [group])
  while (parts.length > MOST_BLOCKS && smallest < map.vaddr.length * 2) {
    smallest = Math.max(1, smallest * 2)
    parts = []
    for (const group of all) {
      const last = parts.at(-1)
      if (last && group.pages.length <= smallest && last.every((other) => other.pages.length <= smallest))
        last.push(group)
      else parts.push([group])
    }
  }
  return parts.map((part) => ({ label: label(part, map, pageSize), pages: part.flatMap((group) => group.pages) }))
}

function label(part: readonly Group[], map: PageMap, pageSize: number): string {
  const pages = part.reduce((sum, group) => sum + group.pages.length, 0)
  const size = `${integer(pages)} page${pages === 1 ? '' : 's'}`
  const first = part[0]!
  if (part.length > 1) return `${part.length} small areas from ${map.vaddr[first.pages[0]!]}, ${size}`
  const name = first.area >= 0 ? map.areas?.[first.area] : undefined
  if (name) return `${visible(name)}, ${size}`
  const end = BigInt(map.vaddr[first.pages.at(-1)!]!) + BigInt(pageSize)
  return `${map.vaddr[first.pages[0]!]} – 0x${end.toString(16)}, ${size}`
}

/** Lays the map out in a width of pixels: the largest cells with which it stays within a screen's height. */
export function layout(map: PageMap, pageSize: number, width: number): Layout {
  const parts = merged(groups(map, pageSize), map, pageSize)
  let result: Layout | undefined
  for (const cell of SIZES) {
    result = place(parts, width, cell)
    if (result.height <= TALL) break
  }
  return result!
}

function place(parts: readonly { label: string; pages: number[] }[], width: number, cell: number): Layout {
  const columns = Math.max(1, Math.floor(width / cell))
  let y = 0
  const blocks = parts.map((part) => {
    const top = y + LABEL
    y = top + Math.ceil(part.pages.length / columns) * cell + 6
    return { ...part, top }
  })
  return { blocks, columns, cell, width: columns * cell, height: Math.max(y, 1) }
}

/** The corner of the cell of place `index` in a block. */
export function corner(map: Layout, block: Block, index: number): { x: number; y: number } {
  return { x: (index % map.columns) * map.cell, y: block.top + Math.floor(index / map.columns) * map.cell }
}

/** A cell: block and place in it. */
export interface Cell {
  block: number
  index: number
}

/** The cell at a point, if there is one. */
export function cellAt(map: Layout, x: number, y: number): Cell | undefined {
  let block = map.blocks.length - 1
  while (block > 0 && map.blocks[block]!.top > y) block -= 1
  const found = map.blocks[block]
  if (!found || y < found.top || x < 0 || x >= map.width) return undefined
  const index = Math.floor((y - found.top) / map.cell) * map.columns + Math.floor(x / map.cell)
  return index < found.pages.length ? { block, index } : undefined
}

/** The cell that an arrow key leads to; the same cell at the edges of the map. */
export function step(map: Layout, from: Cell, key: string): Cell {
  const size = (block: number) => map.blocks[block]?.pages.length ?? 0
  const rows = { ArrowUp: -map.columns, ArrowDown: map.columns, ArrowLeft: -1, ArrowRight: 1 }[key]
  if (key === 'Home') return { block: 0, index: 0 }
  if (key === 'End') return { block: map.blocks.length - 1, index: size(map.blocks.length - 1) - 1 }
  if (rows === undefined) return from
  const index = from.index + rows
  if (index >= 0 && index < size(from.block)) return { block: from.block, index }
  if (index < 0) {
    if (from.block === 0) return from
    const last = size(from.block - 1) - 1
    if (rows === -1) return { block: from.block - 1, index: last }
    return { block: from.block - 1, index: Math.min(last - (last % map.columns) + (from.index % map.columns), last) }
  }
  if (from.block === map.blocks.length - 1) return from
  const column = rows === 1 ? 0 : from.index % map.columns
  return { block: from.block + 1, index: Math.min(column, size(from.block + 1) - 1) }
}

/** How many pages each node holds in a placement. */
export function pagesPerNode(homes: readonly number[], nodes: number): number[] {
  const result = new Array<number>(nodes).fill(0)
  for (const home of homes) if (home < nodes) result[home]! += 1
  return result
}
