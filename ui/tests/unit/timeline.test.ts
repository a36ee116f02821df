// Timelines: words of the report to cells, pages to cells, and what is said.

import { expect, test } from 'vitest'
import type { PageMap } from '../../src/report.ts'
import { cellsOf, folded, label, unpack } from '../../src/timeline.ts'

test('words say who uses cells, alone or not, and how many in a row', () => {
  const users = unpack('0x2 12+ .', 9)
  expect(users.map(({ node, several }) => [node, several])).toEqual([
    [0, false],
    [0, false],
    [12, true],
    [-1, false],
  ])
  expect(unpack('1x4000000000', 3)).toHaveLength(3)
  expect(unpack('nonsense', 3)[0]!.node).toBe(-1)
})

test('a page is in the last cell that begins at or before it', () => {
  const timeline = { cells: ['0x1000', '0x3000'], pages_per_cell: 2, pages_folded: 2, users: [] }
  const map = { vaddr: ['0x4000', '0x1000', '0x2000', '0x3000', '0x0'] } as unknown as PageMap
  expect(cellsOf(timeline, map, [0, 1, 2, 3, 4])).toEqual([1, 0, 0, 1, -1])
  expect(folded(timeline)).toContain('2 pages have no')
  expect(folded({ ...timeline, pages_folded: 0 })).toBeUndefined()
})

test('the label has the interval and its references, the last one shorter', () => {
  const all = { intervals: 4, interval_references: 250, references: 990, areas_left_out: 0 }
  expect(label(0, all)).toContain('whole run')
  expect(label(1, all)).toBe('interval 1 of 4: references 1 to 250')
  expect(label(4, all)).toBe('interval 4 of 4: references 751 to 990')
})
