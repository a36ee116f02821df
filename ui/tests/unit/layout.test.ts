import { expect, test } from 'vitest'
import { cellAt, corner, groups, layout, merged, pagesPerNode, step } from '../../src/pagemap-layout.ts'
import { fixture } from '../fixture.ts'
import type { PageMap } from '../../src/report.ts'

function mapOf(addresses: number[], area?: number[]): PageMap {
  const zero = addresses.map(() => 0)
  return {
    pages: addresses.length,
    shown: addresses.length,
    vaddr: addresses.map((a) => `0x${a.toString(16)}`),
    references: zero,
    class: zero,
    initial: zero,
    most_frequent: zero,
    last: zero,
    policy: 'homing',
    optimal: zero,
    by_node: [],
    area: area ?? [],
    areas: area ? ['a', 'b'] : [],
  }
}

test('pages are grouped by gaps and by areas, in address order', () => {
  const map = mapOf([0x5000, 0x1000, 0x2000, 0x9000000])
  expect(groups(map, 4096).map((group) => group.pages)).toEqual([[1, 2, 0], [3]])
  expect(groups(mapOf([0x1000, 0x2000, 0x3000], [0, 1, 1]), 4096).map((group) => group.pages)).toEqual([[0], [1, 2]])
  expect(layout(mapOf([0x1000, 0x2000, 0x3000], [0, 1, 1]), 4096, 200).blocks.map((block) => block.label)).toEqual([
    'a, 1 page',
    'b, 2 pages',
  ])
  expect(layout(map, 4096, 200).blocks[0]!.label).toBe('0x1000 – 0x6000, 3 pages')
})

test('the highest addresses of 64 bits keep their order', () => {
  const map = mapOf([0, 0, 0])
  map.vaddr = ['0xfffffffffffff000', '0x7ffff000', '0xffffffffffffe000']
  expect(groups(map, 4096).map((group) => group.pages)).toEqual([[1], [2, 0]])
})

test('many small areas share a label, and no page is lost', () => {
  const map = mapOf(Array.from({ length: 500 }, (_, i) => 0x1000 + i * 0x10000000))
  const parts = merged(groups(map, 4096), map, 4096)
  expect(parts.length).toBeLessThanOrEqual(24)
  expect(parts.flatMap((part) => part.pages)).toHaveLength(500)
  expect(parts[0]!.label).toMatch(/small areas from 0x1000/)
})

test('every cell is found again at its corner, and none outside', () => {
  const { page_map: map } = fixture({ pages: 700 }).traces[0]!
  for (const width of [100, 333, 1200]) {
    const place = layout(map, 4096, width)
    expect(place.width).toBeLessThanOrEqual(width)
    expect(place.blocks.reduce((sum, block) => sum + block.pages.length, 0)).toBe(700)
    place.blocks.forEach((block, at) =>
      block.pages.forEach((_, index) => {
        const { x, y } = corner(place, block, index)
        expect(cellAt(place, x, y)).toEqual({ block: at, index })
        expect(y + place.cell).toBeLessThanOrEqual(place.height)
      }),
    )
    expect(cellAt(place, -1, 30)).toBeUndefined()
    expect(cellAt(place, 0, 3)).toBeUndefined()
    expect(cellAt(place, 0, place.height + 999)).toBeUndefined()
  }
  expect(layout(mapOf([]), 4096, 100).blocks).toEqual([])
})

test('a large map takes small cells', () => {
  const { page_map: map } = fixture({ pages: 30_000, bare: true }).traces[0]!
  expect(layout(map, 4096, 550).cell).toBeLessThanOrEqual(3)
})

test('arrow keys reach every page and stay inside', () => {
  const { page_map: map } = fixture({ pages: 137 }).traces[0]!
  const place = layout(map, 4096, 200)
  let at = { block: 0, index: 0 }
  const seen = new Set<string>()
  for (let i = 0; i < 137; i += 1) {
    seen.add(`${at.block}/${at.index}`)
    at = step(place, at, 'ArrowRight')
  }
  expect(seen.size).toBe(137)
  expect(step(place, at, 'ArrowRight')).toEqual(at)
  for (const key of ['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home', 'End', 'x']) {
    place.blocks.forEach((block, b) =>
      block.pages.forEach((_, index) => {
        const to = step(place, { block: b, index }, key)
        expect(place.blocks[to.block]!.pages[to.index]).toBeDefined()
      }),
    )
  }
  expect(step(place, { block: 2, index: 0 }, 'ArrowLeft')).toEqual({
    block: 1,
    index: place.blocks[1]!.pages.length - 1,
  })
})

test('pages per node', () => {
  expect(pagesPerNode([0, 1, 1, 3], 4)).toEqual([1, 2, 0, 1])
  expect(pagesPerNode([], 1)).toEqual([0])
})
